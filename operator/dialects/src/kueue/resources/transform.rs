//! What an administrator makes of requests before they are charged: resources that do not count, and resources that
//! count as others (Kueue's `resources` settings, KEP-2937).

use std::collections::BTreeMap;

use whalezen_core::{
    name::ResourceName,
    quantity::{Amount, Amounts},
};

use super::super::settings::Resources;

/// Billionths in one.
const ONE: i128 = 1_000_000_000;

/// What requests count for under these settings.
pub(super) fn transformed(mut requests: Amounts, settings: &Resources) -> Result<Amounts, String> {
    let excluded = |name: &ResourceName| {
        settings.excluded_prefixes.iter().any(|prefix| name.as_str().starts_with(prefix))
    };
    requests.retain(|name, _| !excluded(name));
    if !requests.keys().any(|name| settings.transformations.contains_key(name)) {
        return Ok(requests);
    }
    let mut counted = Amounts::new();
    let mut generated: BTreeMap<ResourceName, i128> = BTreeMap::new();
    for (name, amount) in &requests {
        let Some(transformation) = settings.transformations.get(name) else {
            counted.insert(name.clone(), *amount);
            continue;
        };
        let too_large = || format!("what {name} counts for exceeds what can be counted");
        let by = transformation.multiply_by.as_ref();
        let by = by.and_then(|by| Some(in_billionths(by, *requests.get(by)?)));
        let input = in_billionths(name, *amount);
        let input = by.map_or(Some(input), |by| product(input, by)).ok_or_else(too_large)?;
        for (output, factor) in &transformation.outputs {
            let more = product(input, *factor).ok_or_else(too_large)?;
            let sum = generated.entry(output.clone()).or_default();
            *sum = sum.checked_add(more).ok_or_else(too_large)?;
        }
        if transformation.retained {
            counted.insert(name.clone(), *amount);
        }
    }
    for (name, billionths) in generated {
        let more = amount(&name, billionths.max(0));
        let entry = counted.entry(name.clone()).or_default();
        *entry = more
            .and_then(|more| entry.checked_add(more))
            .ok_or_else(|| format!("the requests for {name} of one pod exceed what can be counted"))?;
    }
    Ok(counted)
}

/// How many of an amount's units are one.
fn units(name: &ResourceName) -> i128 {
    if name.as_str() == ResourceName::CPU { 1000 } else { 1 }
}

fn in_billionths(name: &ResourceName, amount: Amount) -> i128 {
    i128::from(amount.0) * (ONE / units(name))
}

/// The amount, rounded up.
fn amount(name: &ResourceName, billionths: i128) -> Option<Amount> {
    let unit = ONE / units(name);
    i64::try_from(billionths.checked_add(unit - 1)?.div_euclid(unit)).ok().map(Amount)
}

/// The product of two numbers of billionths, rounded up.
fn product(a: i128, b: i128) -> Option<i128> {
    a.checked_mul(b)?.checked_add(ONE - 1).map(|product| product.div_euclid(ONE))
}

#[cfg(test)]
mod tests {
    use whalezen_core::quantity::parse_factor;

    use super::{super::super::settings::Transformation, *};

    const REPLACED: bool = false;
    const RETAINED: bool = true;

    fn amounts(of: &[(&str, i64)]) -> Amounts {
        of.iter().map(|(name, amount)| ((*name).into(), Amount(*amount))).collect()
    }

    fn transformation(retained: bool, by: Option<&str>, outputs: &[(&str, &str)]) -> Transformation {
        let output = |(name, factor): &(&str, &str)| ((*name).into(), parse_factor(factor).unwrap());
        Transformation {
            retained,
            multiply_by: by.map(Into::into),
            outputs: outputs.iter().map(output).collect(),
        }
    }

    fn settings<const N: usize>(of: [(&str, Transformation); N]) -> Resources {
        let transformations = of.into_iter().map(|(name, of)| (name.into(), of)).collect();
        Resources { transformations, ..Resources::default() }
    }

    #[test]
    fn excluded_resources_count_for_nothing_whatever_they_would_become() {
        let mut settings = settings([("x.io/a", transformation(RETAINED, None, &[("b", "1")]))]);
        settings.excluded_prefixes = vec!["x.io/".to_owned()];
        let requests = amounts(&[("cpu", 1), ("x.io/a", 2), ("x.io.y/a", 3)]);
        assert_eq!(transformed(requests, &settings), Ok(amounts(&[("cpu", 1), ("x.io.y/a", 3)])));
    }

    #[test]
    fn mig_profiles_count_as_memory_and_as_themselves_if_they_are_retained() {
        let outputs: &[(&str, &str)] = &[("gpu-memory", "5Gi"), ("credits", "10")];
        let requests = || amounts(&[("cpu", 2000), ("gpu-memory", 1 << 30), ("mig-1g.5gb", 2)]);
        let mut want = amounts(&[("cpu", 2000), ("credits", 20), ("gpu-memory", 11 << 30)]);
        let replaced = settings([("mig-1g.5gb", transformation(REPLACED, None, outputs))]);
        assert_eq!(transformed(requests(), &replaced), Ok(want.clone()));
        let retained = settings([("mig-1g.5gb", transformation(RETAINED, None, outputs))]);
        want.insert("mig-1g.5gb".into(), Amount(2));
        assert_eq!(transformed(requests(), &retained), Ok(want));
    }

    #[test]
    fn a_multiplier_counts_if_the_pod_requests_it_and_leaves_the_retained_amount_alone() {
        let memory = transformation(RETAINED, Some("gpus"), &[("total-memory", "1")]);
        let settings = settings([("gpu-memory", memory)]);
        let requests = amounts(&[("gpu-memory", 1000), ("gpus", 4)]);
        let want = amounts(&[("gpu-memory", 1000), ("gpus", 4), ("total-memory", 4000)]);
        assert_eq!(transformed(requests, &settings), Ok(want));
        let want = amounts(&[("gpu-memory", 1000), ("total-memory", 1000)]);
        assert_eq!(transformed(amounts(&[("gpu-memory", 1000)]), &settings), Ok(want));
    }

    #[test]
    fn fractions_are_exact_and_only_the_sum_is_rounded_up() {
        for (input, amount, output, factor, want) in [
            ("cpu", 1500, "credits", "1", 2),
            ("cpu", 1500, "cpu-seconds", "500m", 1),
            ("gpus", 3, "cpu", "1500m", 4500),
            ("gpus", 3, "cpu", "1n", 1),
            ("gpus", 3, "credits", "333m", 1),
            ("cpu", 1, "credits", "1k", 1),
        ] {
            let of = settings([(input, transformation(REPLACED, None, &[(output, factor)]))]);
            assert_eq!(
                transformed(amounts(&[(input, amount)]), &of),
                Ok(amounts(&[(output, want)])),
                "{input} {factor}"
            );
        }
        let half = || transformation(REPLACED, None, &[("credits", "500m")]);
        let both = settings([("a", half()), ("b", half())]);
        assert_eq!(transformed(amounts(&[("a", 1), ("b", 1)]), &both), Ok(amounts(&[("credits", 1)])));
    }

    #[test]
    fn an_allowance_lessens_what_others_generate_and_not_what_was_requested() {
        let of = settings([
            ("gpus", transformation(REPLACED, None, &[("cpu", "-8")])),
            ("slots", transformation(REPLACED, None, &[("cpu", "10")])),
        ]);
        let requests = |slots| amounts(&[("cpu", 1000), ("gpus", 1), ("slots", slots)]);
        assert_eq!(transformed(requests(1), &of), Ok(amounts(&[("cpu", 3000)])));
        assert_eq!(transformed(requests(0), &of), Ok(amounts(&[("cpu", 1000)])));
    }

    #[test]
    fn an_input_without_outputs_that_is_replaced_does_not_count() {
        let of = settings([("gpus", transformation(REPLACED, None, &[]))]);
        assert_eq!(transformed(amounts(&[("cpu", 1), ("gpus", 1)]), &of), Ok(amounts(&[("cpu", 1)])));
    }

    #[test]
    fn what_becomes_too_large_says_so() {
        let of = settings([("gpus", transformation(REPLACED, None, &[("m", "9E")]))]);
        let problem = "the requests for m of one pod exceed what can be counted";
        assert_eq!(transformed(amounts(&[("gpus", 2)]), &of), Err(problem.to_owned()));
        let huge = transformed(amounts(&[("gpus", i64::MAX)]), &of);
        assert_eq!(huge, Err("what gpus counts for exceeds what can be counted".to_owned()));
    }
}
