//! `/convert`: the API server sends objects of one version and gets them in another.
//!
//! Nobody has to say who he is here: whoever sends an object gets the same object back.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use kube::core::{
    Status,
    conversion::{ConversionRequest, ConversionResponse, ConversionReview},
};
use serde_json::Value;
use tokio::{task::spawn_blocking, time::timeout};
use whalezen_dialects::kueue::conversion::{self, Version};

use super::{Pages, refusal};

/// How many requests are read and answered at once: whoever reaches the port can send a large one.
pub const AT_ONCE: usize = 4;
/// The API server sends the objects of a list together, up to ten thousand.
const LARGEST: usize = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

pub async fn convert(State(pages): State<Arc<Pages>>, request: Request) -> Response {
    let busy = || refusal(StatusCode::SERVICE_UNAVAILABLE, "busy: try again");
    let Ok(Ok(_turn)) = timeout(PATIENCE, pages.converters.acquire()).await else { return busy() };
    let body = match read(request.into_body(), PATIENCE).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    // The engine is on this thread, and is not to wait for a long list.
    match spawn_blocking(move || answer(&body)).await {
        Ok(Ok(review)) => Json(review).into_response(),
        Ok(Err(problem)) => refusal(StatusCode::BAD_REQUEST, &problem),
        Err(_) => busy(),
    }
}

async fn read(body: Body, patience: Duration) -> Result<Bytes, Response> {
    match timeout(patience, to_bytes(body, LARGEST)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => Err(refusal(
            StatusCode::PAYLOAD_TOO_LARGE,
            "a review is not larger than 64 MiB, and is sent whole",
        )),
        Err(_) => Err(refusal(StatusCode::BAD_REQUEST, "the review did not come in time")),
    }
}

/// The review with its answer, or what is wrong with it.
fn answer(body: &Bytes) -> Result<ConversionReview, String> {
    let review: ConversionReview =
        serde_json::from_slice(body).map_err(|problem| format!("this is no ConversionReview: {problem}"))?;
    let mut request = ConversionRequest::from_review(review)
        .map_err(|_| "this is a ConversionReview without a request".to_owned())?;
    let objects = std::mem::take(&mut request.objects);
    let desired = request.desired_api_version.clone();
    let response = ConversionResponse::for_request(request);
    let converted = match Version::of(&desired) {
        Some(version) => all(objects, version),
        None => Err(format!("{desired:?} is no version that is converted to here")),
    };
    let response = match converted {
        Ok(objects) => response.success(objects),
        Err(problem) => response.failure(Status::failure(&problem, "Invalid")),
    };
    Ok(response.into_review())
}

fn all(objects: Vec<Value>, to: Version) -> Result<Vec<Value>, String> {
    let each = objects.into_iter().map(|object| {
        let text = |path| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let name = format!("{} {}/{}", text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
        conversion::convert(object, to).map_err(|problem| format!("{name}: {problem}"))
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reviewed(body: &Value) -> Result<Value, String> {
        answer(&Bytes::from(body.to_string())).map(|review| serde_json::to_value(review).unwrap())
    }

    fn review(desired: &str, objects: &Value) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "ConversionReview",
            "request": { "uid": "u", "desiredAPIVersion": desired, "objects": objects },
        })
    }

    fn flavor(version: &str) -> Value {
        json!({
            "apiVersion": format!("kueue.x-k8s.io/{version}"),
            "kind": "ResourceFlavor",
            "metadata": { "name": "f" },
            "spec": {},
        })
    }

    #[test]
    fn a_list_is_answered_object_by_object_in_its_order() {
        let objects = json!([flavor("v1beta1"), flavor("v1beta2")]);
        let answer = reviewed(&review("kueue.x-k8s.io/v1beta2", &objects)).unwrap();
        assert_eq!(answer["response"]["uid"], "u");
        assert_eq!(answer["response"]["result"]["status"], "Success");
        let both = json!([flavor("v1beta2"), flavor("v1beta2")]);
        assert_eq!(answer["response"]["convertedObjects"], both);
    }

    #[test]
    fn one_that_cannot_be_converted_fails_the_review_by_name() {
        let objects = json!([flavor("v1beta1"), flavor("v9")]);
        let answer = reviewed(&review("kueue.x-k8s.io/v1beta2", &objects)).unwrap();
        let result = &answer["response"]["result"];
        assert_eq!(result["status"], "Failure");
        let message = result["message"].as_str().unwrap();
        assert!(message.contains("ResourceFlavor /f") && message.contains("v9"), "{message}");
        let answer = reviewed(&review("kueue.x-k8s.io/v7", &json!([flavor("v1beta1")]))).unwrap();
        assert!(answer["response"]["result"]["message"].as_str().unwrap().contains("v7"), "{answer}");
    }

    #[tokio::test]
    async fn what_is_too_large_or_never_ends_is_refused() {
        let refused = async |body| read(body, Duration::from_millis(50)).await.unwrap_err().status();
        let large = read(Body::from(vec![b' '; LARGEST + 1]), PATIENCE).await;
        assert_eq!(large.unwrap_err().status(), StatusCode::PAYLOAD_TOO_LARGE);
        let endless = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
        assert_eq!(refused(endless).await, StatusCode::BAD_REQUEST);
    }

    #[test]
    fn nonsense_is_refused_in_words() {
        assert!(answer(&Bytes::from_static(b"\xff\x00")).unwrap_err().contains("no ConversionReview"));
        assert!(reviewed(&json!([])).unwrap_err().contains("no ConversionReview"));
        let empty = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview" });
        assert!(reviewed(&empty).unwrap_err().contains("without a request"));
        let deep = "[".repeat(100_000);
        assert!(answer(&Bytes::from(deep)).is_err(), "nesting is limited");
    }
}
