//! What NVIDIA's GPU Feature Discovery says of a node, for those that do not have it. Queues are commonly made for
//! `nvidia.com/gpu.product`.

use super::Labels;
use crate::view::View;

/// A label that GPU Feature Discovery alone sets.
const DISCOVERED: &str = "nvidia.com/gfd.timestamp";

/// The label by which NVIDIA's operator places GPU Feature Discovery on a node.
const DEPLOYED: &str = "nvidia.com/gpu.deploy.gpu-feature-discovery";

/// Whether GPU Feature Discovery is on the node, going by labels that are not ours.
pub fn is_discovered(theirs: &Labels) -> bool {
    theirs.contains_key(DISCOVERED) || theirs.get(DEPLOYED).is_some_and(|value| value != "false")
}

/// The labels. Of a node with several models only what holds for all of them is said; the count is that of all.
pub fn labels(view: &View) -> Labels {
    let mut labels = Labels::new();
    let mut set = |name: &str, value: String| labels.insert(format!("nvidia.com/{name}"), value);
    set("gpu.count", view.gpus.len().to_string());
    let capable = view.gpus.iter().any(|seen| seen.gpu.mig.is_some());
    set("mig.capable", capable.to_string());
    if capable {
        set("mig.strategy", "mixed".to_owned());
    }
    let mut gpus = view.gpus.iter().map(|seen| &seen.gpu);
    if let Some(first) = gpus.next()
        && gpus.all(|gpu| gpu.model == first.model && gpu.memory == first.memory)
    {
        if let Some(product) = product(&first.model) {
            set("gpu.product", product);
        }
        set("gpu.memory", (first.memory >> 20).to_string());
    }
    labels
}

/// The name of a product as the value of a label: what may not stand there is a dash. `None` if nothing is left.
pub fn product(model: &str) -> Option<String> {
    let value =
        model
            .chars()
            .map(|letter| {
                if letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-') { letter } else { '-' }
            })
            .take(63)
            .collect::<String>();
    let value = value.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
    (!value.is_empty()).then(|| value.to_owned())
}
