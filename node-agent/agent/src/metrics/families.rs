//! The families of series, made for one answer.

use std::{collections::BTreeMap, sync::atomic::AtomicU64};

use prometheus_client::{
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

use super::{Labels, Metric};

type Series = Family<Labels, Gauge<f64, AtomicU64>>;

/// One family for each metric.
pub struct Families(BTreeMap<Metric, Series>);

impl Families {
    /// Families that nothing was put into yet.
    pub fn register(registry: &mut Registry) -> Self {
        let mut families = BTreeMap::new();
        for metric in Metric::ALL {
            let series = Series::default();
            registry.register(metric.name(), metric.help(), series.clone());
            families.insert(metric, series);
        }
        Self(families)
    }

    /// Puts a value into each of these series.
    pub fn set(&self, metric: Metric, series: &[Labels], value: f64) {
        if let Some(family) = self.0.get(&metric) {
            for labels in series {
                family.get_or_create(labels).set(value);
            }
        }
    }
}
