//! The published figures: what the artefact's authors got on each mix with each policy, by arrivals, for ten seeds.
//!
//! They are not part of this project. They are read from `fgd-expected/analysis_allo_discrete.csv` in the folder of traces, whose columns are
//! `workload,sc_policy,tune,seed,total_gpus` and then the allocated percentage at each percent of arrivals.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result, bail};

use super::experiment::spread;

/// Published figures by mix and policy.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    /// One curve a seed.
    curves: BTreeMap<(String, String), Vec<Vec<f64>>>,
}

impl Reference {
    /// The figures in a folder of traces; none if they are not there.
    pub fn read(traces: &Path) -> Result<Self> {
        let path = traces.join("fgd-expected/analysis_allo_discrete.csv");
        if !path.is_file() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} is not as published", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut lines = text.lines();
        let header = lines.next().unwrap_or_default();
        if !header.starts_with("workload,sc_policy,tune,seed,total_gpus,0,") {
            bail!("its first line is {header:?}");
        }
        let mut curves: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (line, number) in lines.zip(2..).filter(|(line, _)| !line.is_empty()) {
            let mut fields = line.split(',');
            let mut name = || fields.next().unwrap_or_default();
            let mix = name().trim_start_matches("openb_pod_list_").to_owned();
            let policy =
                name().trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '-').to_owned();
            let figures = fields.skip(3).map(str::parse).collect::<Result<Vec<f64>, _>>();
            curves.entry((mix, policy)).or_default().push(figures.with_context(|| format!("line {number}"))?);
        }
        Ok(Self { curves })
    }

    /// Mean and standard deviation over the seeds, at a percentage of arrivals.
    pub fn at(&self, mix: &str, policy: &str, percent: usize) -> Option<(f64, f64)> {
        let curves = self.curves.get(&(mix.to_owned(), policy.to_owned()))?;
        let values: Option<Vec<_>> = curves.iter().map(|curve| curve.get(percent).copied()).collect();
        values.map(|values| spread(&values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_mix_and_policy() {
        let text = "workload,sc_policy,tune,seed,total_gpus,0,1\n\
                    openb_pod_list_default,06-FGD,1.3,42,6212,0.25,95.0\nopenb_pod_list_default,06-FGD,1.3,43,6212,0.5,97.0\n";
        let reference = Reference::parse(text).unwrap();
        let (mean, sd) = reference.at("default", "FGD", 1).unwrap();
        assert!((mean - 96.0).abs() < 1e-9 && (sd - 2.0_f64.sqrt()).abs() < 1e-9, "{mean} {sd}");
        assert_eq!(reference.at("default", "FGD", 2), None);
        assert_eq!(reference.at("cpu050", "FGD", 1), None);
        assert!(Reference::parse("a,b\n").is_err());
        assert!(Reference::parse(&text.replace("97.0", "many")).unwrap_err().to_string().contains("line 3"));
    }
}
