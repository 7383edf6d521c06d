//! A smaller edition of one of the harness's generator configurations, for quick looks.

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The configuration with every `count` of a workload set multiplied by `factor`, at least one.
/// Queues and cohorts stay as many as they are. The text is JSON, which the runner reads as YAML.
pub fn scaled(yaml: &str, factor: f64) -> Result<String> {
    if !(factor > 0.0 && factor.is_finite()) {
        bail!("a scale is a number above zero, not {factor}");
    }
    let mut config: Value =
        serde_saphyr::from_str(yaml).context("the generator's configuration does not read")?;
    let mut found = false;
    for cohort in items(&mut config, "cohorts") {
        for queues in items(cohort, "queuesSets") {
            for set in items(queues, "workloadsSets") {
                if let Some(count) = set.get_mut("count") {
                    let number = count.as_u64().context("a workload set's count is no number")?;
                    *count = times(number, factor).into();
                    found = true;
                }
            }
        }
    }
    if !found {
        bail!("the generator's configuration has no workload sets to scale");
    }
    Ok(serde_json::to_string_pretty(&config)?)
}

fn items<'a>(value: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

/// So many times a factor, at least one.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are small and the factor is above zero"
)]
pub fn times(count: u64, factor: f64) -> u64 {
    ((count as f64 * factor).round() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "
cohorts:
  - className: cohort
    count: 5
    queuesSets:
    - className: cq
      count: 6
      nominalQuota: 20
      workloadsSets:
      - {count: 350, creationIntervalMs: 100, workloads: [{className: small, runtimeMs: 200, priority: 50, request: 1}]}
      - {count: 3, creationIntervalMs: 1200, workloads: [{className: large, runtimeMs: 1000, priority: 200, request: 20}]}
";

    #[test]
    fn only_the_workloads_become_fewer_and_never_none() {
        let config: Value = serde_json::from_str(&scaled(CONFIG, 0.1).unwrap()).unwrap();
        let cohort = &config["cohorts"][0];
        let queues = &cohort["queuesSets"][0];
        assert_eq!(cohort["count"], 5);
        assert_eq!(queues["count"], 6);
        assert_eq!(queues["nominalQuota"], 20);
        assert_eq!(queues["workloadsSets"][0]["count"], 35);
        assert_eq!(queues["workloadsSets"][0]["workloads"][0]["priority"], 50);
        assert_eq!(queues["workloadsSets"][1]["count"], 1);
    }

    #[test]
    fn a_scale_that_is_no_scale_and_a_file_without_sets_are_refused() {
        assert!(scaled(CONFIG, 0.0).is_err());
        assert!(scaled(CONFIG, f64::NAN).is_err());
        assert!(scaled("cohorts: []", 0.5).is_err());
    }
}
