//! Reading and writing amounts.

use proptest::prelude::*;
use whalezen_core::quantity::{Amount, Sums, format, parse};

use crate::GPU;

proptest! {
    #[test]
    fn what_is_written_is_read_as_the_same_amount(value in 0..=i64::MAX, shift in 0..63_u32, which in 0..5_usize) {
        let resource = ["cpu", "memory", "hugepages-2Mi", "ephemeral-storage", GPU][which];
        for value in [value, value >> shift, value >> shift << shift, (value >> shift) / 1000 * 1000] {
            let amount = Amount(value);
            prop_assert_eq!(parse(resource, &format(resource, amount)), Ok(amount));
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic_or_give_less_than_nothing(text in "[-+0-9.eEkMGTPKimun]{0,12}|.{0,8}") {
        for resource in ["cpu", GPU] {
            prop_assert!(parse(resource, &text).is_ok_and(|amount| amount >= Amount::ZERO) || parse(resource, &text).is_err());
        }
    }

    #[test]
    fn a_more_precise_text_is_never_read_as_less(whole in 0..1_000_000_u32, millis in 0..1000_u32) {
        let cpu = parse("cpu", &format!("{whole}.{millis:03}")).unwrap();
        prop_assert_eq!(cpu, Amount(i64::from(whole) * 1000 + i64::from(millis)));
        let rounded = parse(GPU, &format!("{whole}.{millis:03}")).unwrap();
        prop_assert_eq!(rounded, Amount(i64::from(whole) + i64::from(millis > 0)));
    }
}

#[test]
fn an_empty_sum_is_nothing() {
    assert_eq!(Sums::default().usage().len(), 0);
}
