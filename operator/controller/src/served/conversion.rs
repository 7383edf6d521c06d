//! `/convert`: the API server sends objects of one version and gets them in another.
//!
//! Nobody has to say who he is here: whoever sends an object gets the same object back. So what one request can take is
//! bounded: its objects are read one after the other, and each is text again before the next.

use std::{fmt, sync::Arc, time::Duration};

use axum::{
    Json,
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use kube::core::Status;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, SeqAccess, Visitor},
};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use tokio::{task::spawn_blocking, time::timeout};
use whalezen_dialects::kueue::conversion::{self, Version};

use super::{Pages, refusal};

/// How many requests are read and answered at once: whoever reaches the port can send a large one.
pub const AT_ONCE: usize = 4;
/// The API server sends the objects of a list together, up to ten thousand.
const LARGEST: usize = 32 << 20;
/// How many those may be.
const MOST_OBJECTS: usize = 20_000;
/// As the API server has it for a request with one object.
const LARGEST_OBJECT: usize = 3 << 20;
/// How large an answer may be: some objects take more room in another version.
const LARGEST_ANSWER: usize = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// What is asked, as far as it is read.
#[derive(Deserialize)]
struct Asked<'a> {
    #[serde(borrow)]
    request: Option<Order<'a>>,
}

#[derive(Deserialize)]
struct Order<'a> {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired: String,
    #[serde(borrow, deserialize_with = "objects")]
    objects: Vec<&'a RawValue>,
}

/// What is answered.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: &'static str,
    kind: &'static str,
    response: Answer,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    uid: String,
    result: Status,
    converted_objects: Vec<Box<RawValue>>,
}

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

/// The objects of a request, if there are not too many.
fn objects<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<&'a RawValue>, D::Error> {
    struct Objects;

    impl<'de> Visitor<'de> for Objects {
        type Value = Vec<&'de RawValue>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a list of objects")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut objects = Vec::new();
            while let Some(object) = list.next_element()? {
                if objects.len() == MOST_OBJECTS {
                    return Err(A::Error::custom(format!("a review has at most {MOST_OBJECTS} objects")));
                }
                objects.push(object);
            }
            Ok(objects)
        }
    }

    deserializer.deserialize_seq(Objects)
}

/// The review with its answer, or what is wrong with it.
fn answer(body: &Bytes) -> Result<Review, String> {
    let asked: Asked<'_> =
        serde_json::from_slice(body).map_err(|problem| format!("this is no ConversionReview: {problem}"))?;
    let Some(Order { uid, desired, objects }) = asked.request else {
        return Err("this is a ConversionReview without a request".to_owned());
    };
    let converted = match Version::of(&desired) {
        Some(version) => all(&objects, version),
        None => Err(format!("{desired:?} is no version that is converted to here")),
    };
    let (result, converted_objects) = match converted {
        Ok(objects) => (Status::success(), objects),
        Err(problem) => (Status::failure(&problem, "Invalid"), Vec::new()),
    };
    let response = Answer { uid, result, converted_objects };
    Ok(Review { api_version: "apiextensions.k8s.io/v1", kind: "ConversionReview", response })
}

fn all(objects: &[&RawValue], to: Version) -> Result<Vec<Box<RawValue>>, String> {
    let mut size = 0;
    let mut converted = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        let object = one(object.get(), to).map_err(|problem| format!("object {index}, {problem}"))?;
        size += object.get().len();
        if size > LARGEST_ANSWER {
            return Err(format!("the answer would be larger than {} MiB", LARGEST_ANSWER >> 20));
        }
        converted.push(object);
    }
    Ok(converted)
}

fn one(text: &str, to: Version) -> Result<Box<RawValue>, String> {
    if text.len() > LARGEST_OBJECT {
        return Err(format!("which is larger than {} MiB", LARGEST_OBJECT >> 20));
    }
    let object: Value =
        serde_json::from_str(text).map_err(|problem| format!("which cannot be read: {problem}"))?;
    let text = |path| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let name = format!("{} {}/{}", text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
    let named = |problem: &dyn fmt::Display| format!("{name}: {problem}");
    let object = conversion::convert(object, to).map_err(|problem| named(&problem))?;
    to_raw_value(&object).map_err(|problem| named(&problem))
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

    #[test]
    fn a_request_takes_no_more_than_it_may() {
        let failure = |objects: &Value| {
            let answer = reviewed(&review("kueue.x-k8s.io/v1beta1", objects)).unwrap();
            answer["response"]["result"]["message"].as_str().unwrap_or_default().to_owned()
        };
        let many = vec![json!(1); MOST_OBJECTS + 1];
        let problem = reviewed(&review("kueue.x-k8s.io/v1beta1", &json!(many))).unwrap_err();
        assert!(problem.contains("at most 20000 objects"), "{problem}");
        let mut large = flavor("v1beta2");
        large["metadata"]["annotations"] = json!({ "a": "x".repeat(LARGEST_OBJECT) });
        assert!(failure(&json!([large])).contains("larger than 3 MiB"));

        // Names of which the greater part is written once, and a hundred thousand letters.
        let common = "x".repeat(6_000);
        let roots = vec!["a"; 10_000];
        let column = json!({ "individual": { "prefix": common, "roots": roots } });
        let slice =
            json!({ "domainCount": 10_000, "valuesPerLevel": [column], "podCounts": { "universal": 1 } });
        let assignment = json!({ "levels": ["rack"], "slices": [slice] });
        let workload = json!({
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": { "name": "w" },
            "status": { "admission": { "podSetAssignments": [{ "topologyAssignment": assignment }] } },
        });
        assert!(failure(&json!([workload, workload])).contains("the answer would be larger than 64 MiB"));
    }
}
