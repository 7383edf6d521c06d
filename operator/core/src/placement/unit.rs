//! The compute unit: one number that makes GPU models and vendors comparable.
//!
//! One *compute unit* is what one NVIDIA A100-SXM4-40GB gives. What another model gives is the geometric mean of two ratios
//! to that one, both from the vendors' data sheets: dense half-precision matrix arithmetic, without sparsity (what bounds
//! large matrix products), and the bandwidth of its memory (what bounds nearly all else in training and decoding). The mean is
//! geometric so that no model gains by being extreme in one of the two, and so that the choice of the reference changes no
//! ratio between two others.
//!
//! It is a measure for comparing and pricing, not a prediction of a job's speed: a task that names the relative speeds of the
//! models that it was measured on is [taken at its word](super::Models).

use std::{collections::BTreeMap, sync::Arc};

/// Two published rates of a GPU model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rates {
    /// Dense half-precision matrix arithmetic, in units of 10^12 operations a second.
    pub teraflops: u32,
    /// Bandwidth of its memory, in GB a second.
    pub bandwidth: u32,
}

/// The model that one unit is defined by.
const REFERENCE: Rates = Rates { teraflops: 312, bandwidth: 1555 };

/// Data sheets, rounded to whole units. Models without matrix units for half precision are listed with their ordinary
/// half- or single-precision rate, whichever is higher.
const KNOWN: &[(&str, u32, u32)] = &[
    ("A10", 125, 600),
    ("A100", 312, 1555),
    ("A30", 165, 933),
    ("B200", 2250, 8000),
    ("GAUDI2", 432, 2450),
    ("GAUDI3", 1835, 3700),
    ("GH200", 989, 4000),
    ("H100", 989, 3350),
    ("H200", 989, 4800),
    ("L4", 121, 300),
    ("L40S", 362, 864),
    ("MI210", 181, 1638),
    ("MI250", 362, 3277),
    ("MI300X", 1307, 5300),
    ("MI325X", 1307, 6000),
    ("P100", 21, 732),
    ("P4", 6, 192),
    ("RTX3090", 71, 936),
    ("RTX4090", 165, 1008),
    ("T4", 65, 320),
    ("V100", 125, 900),
];

/// How much each GPU model gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ComputeUnits {
    known: BTreeMap<Arc<str>, u32>,
}

impl Default for ComputeUnits {
    /// The models that are known from their data sheets.
    fn default() -> Self {
        let mut units = Self { known: BTreeMap::new() };
        for &(model, teraflops, bandwidth) in KNOWN {
            units.set(model, Rates { teraflops, bandwidth });
        }
        units
    }
}

impl ComputeUnits {
    /// Declares a model, or declares it anew.
    pub fn set(&mut self, model: &str, rates: Rates) {
        let ratio = |own: u32, reference: u32| u64::from(own) * 1_000_000 / u64::from(reference);
        // Of two ratios in millionths the product is in 10^12ths, its root in millionths.
        let product = ratio(rates.teraflops, REFERENCE.teraflops)
            .saturating_mul(ratio(rates.bandwidth, REFERENCE.bandwidth));
        let milli = u32::try_from((product.isqrt() + 500) / 1000).unwrap_or(u32::MAX);
        self.known.insert(canonical(model).into(), milli.max(1));
    }

    /// What one GPU of a model gives, in thousandths of a unit; `None` if nothing is known of it. A name is matched as a
    /// device plugin or a data sheet would write it: `NVIDIA-A100-SXM4-80GB`, `A100`, `Tesla V100-PCIE-16GB`, `V100M32`.
    pub fn of(&self, model: &str) -> Option<u32> {
        let name = canonical(model);
        // The longest name that it begins with, so that `L40S` is no `L4`.
        let matching =
            self.known.iter().filter(|(known, _)| name.strip_prefix(&***known).is_some_and(is_variant));
        matching.max_by_key(|(known, _)| known.len()).map(|(_, milli)| *milli)
    }
}

/// In capitals, without the vendor and without what separates words.
fn canonical(model: &str) -> String {
    let upper = model.to_ascii_uppercase();
    let words = upper.split(|letter: char| !letter.is_ascii_alphanumeric());
    let named =
        words.filter(|word| !matches!(*word, "NVIDIA" | "TESLA" | "AMD" | "INSTINCT" | "INTEL" | "GEFORCE"));
    named.collect()
}

/// Whether this may follow the name of a model: a form or a size of memory, and not more digits of another model's name.
fn is_variant(rest: &str) -> bool {
    !rest.starts_with(|letter: char| letter.is_ascii_digit())
        || rest.trim_start_matches(|letter: char| letter.is_ascii_digit()).starts_with("GB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_is_one_unit_and_others_follow_their_data_sheets() {
        let units = ComputeUnits::default();
        for (model, milli) in
            [("A100", 1000), ("H100", 2613), ("V100", 482), ("T4", 207), ("MI300X", 3779), ("P100", 178)]
        {
            assert_eq!(units.of(model), Some(milli), "{model}");
        }
    }

    #[test]
    fn a_model_is_known_by_the_names_that_plugins_and_data_sheets_give_it() {
        let units = ComputeUnits::default();
        for (name, same) in [
            ("NVIDIA-A100-SXM4-80GB", "A100"),
            ("NVIDIA H100 80GB HBM3", "H100"),
            ("Tesla V100-PCIE-16GB", "V100"),
            ("V100M32", "V100"),
            ("NVIDIA-GeForce-RTX-3090", "RTX3090"),
            ("NVIDIA-L40S", "L40S"),
        ] {
            assert_eq!(units.of(name), units.of(same), "{name}");
            assert!(units.of(name).is_some(), "{name}");
        }
        for unknown in ["", "G2", "H1000", "A1", "T40", "NVIDIA"] {
            assert_eq!(units.of(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_model_that_is_declared_is_counted_as_declared() {
        let mut units = ComputeUnits::default();
        units.set("Other Vendor X1", Rates { teraflops: 624, bandwidth: 3110 });
        assert_eq!(units.of("other-vendor-x1"), Some(2000));
        units.set("zero", Rates { teraflops: 0, bandwidth: 0 });
        assert_eq!(units.of("zero"), Some(1), "a price of nothing would be no price");
    }
}
