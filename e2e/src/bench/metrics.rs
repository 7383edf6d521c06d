//! Prometheus text, as far as the benchmarks read it: samples with labels, their sums, and the
//! client that fetches a page of them from one process.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use kube::{Client, Config};

/// The samples of one page.
#[derive(Debug, Default, Clone)]
pub struct Samples(Vec<Sample>);

/// One sample: a series and its value at the time of the page.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The metric's name, with `_bucket`, `_sum` and `_count` as written.
    pub name: String,
    /// The series' labels.
    pub labels: BTreeMap<String, String>,
    /// The value.
    pub value: f64,
}

impl Sample {
    /// The value of a label; a label that is absent reads as empty, as Prometheus has it.
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}

impl Samples {
    /// Reads the text format; comments and lines that are no samples are skipped.
    pub fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(parse_line).collect())
    }

    /// The samples of one metric.
    pub fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Sample> {
        self.0.iter().filter(move |sample| sample.name == name)
    }

    /// The sum over the samples of a metric that `keep` keeps.
    pub fn sum(&self, name: &str, keep: impl Fn(&Sample) -> bool) -> f64 {
        self.of(name).filter(|sample| keep(sample)).map(|sample| sample.value).sum()
    }
}

fn parse_line(line: &str) -> Option<Sample> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let name_end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    let (name, rest) = line.split_at(name_end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => parse_labels(rest)?,
        None => (BTreeMap::new(), rest),
    };
    // A timestamp may follow the value.
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample { name: name.to_owned(), labels, value })
}

/// Reads `a="b",c="d"}` and gives back what follows the brace.
fn parse_labels(mut rest: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, after) = rest.split_once("=\"")?;
        let (value, after) = parse_quoted(after)?;
        labels.insert(name.trim().to_owned(), value);
        rest = after;
    }
}

/// Reads up to the closing quote, resolving the format's three escapes.
fn parse_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

/// Where one process serves its pages.
#[derive(Clone)]
pub struct Endpoint {
    client: Client,
}

impl Endpoint {
    /// A process on this machine that serves plain HTTP at `address`, host and port.
    pub fn local(address: &str) -> Result<Self> {
        let url = format!("http://{address}").parse().with_context(|| format!("{address} is no address"))?;
        Ok(Self { client: Client::try_from(Config::new(url))? })
    }

    /// The API server that `client` speaks to.
    pub fn of(client: Client) -> Self {
        Self { client }
    }

    /// The body of a page such as `metrics` or `readyz`.
    pub async fn page(&self, name: &str) -> Result<String> {
        let request = http::Request::get(format!("/{name}")).body(Vec::new())?;
        self.client.request_text(request).await.with_context(|| format!("reading /{name}"))
    }

    /// The metrics page.
    pub async fn samples(&self) -> Result<Samples> {
        Ok(Samples::parse(&self.page("metrics").await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"
# HELP rest_client_requests_total Number of HTTP requests.
# TYPE rest_client_requests_total counter
rest_client_requests_total{code="200",host="127.0.0.1:6443",method="PATCH"} 12
rest_client_requests_total{code="409",host="127.0.0.1:6443",method="PATCH"} 3
rest_client_requests_total{code="200",host="127.0.0.1:6443",method="GET"} 1.5e+01
up 1 1700000000000
odd{text="a \"quoted\" comma, and } a \\ brace",} +Inf
not a sample
broken{a="b
"#;

    #[test]
    fn samples_are_summed_by_label() {
        let samples = Samples::parse(PAGE);
        let sum = samples.sum("rest_client_requests_total", |s| s.label("method") == "PATCH");
        assert!((sum - 15.0).abs() < f64::EPSILON);
        assert!((samples.sum("rest_client_requests_total", |_| true) - 30.0).abs() < f64::EPSILON);
        assert!(samples.sum("absent", |_| true).abs() < f64::EPSILON);
    }

    #[test]
    fn a_sample_without_labels_may_carry_a_timestamp() {
        let samples = Samples::parse(PAGE);
        let up: Vec<_> = samples.of("up").collect();
        assert_eq!(up.len(), 1);
        assert!((up[0].value - 1.0).abs() < f64::EPSILON);
        assert_eq!(up[0].label("absent"), "");
    }

    #[test]
    fn quotes_braces_and_backslashes_stay_in_the_label() {
        let samples = Samples::parse(PAGE);
        let odd = samples.of("odd").next().unwrap();
        assert_eq!(odd.label("text"), r#"a "quoted" comma, and } a \ brace"#);
        assert!(odd.value.is_infinite());
    }

    #[test]
    fn lines_that_are_no_samples_are_skipped() {
        let samples = Samples::parse(PAGE);
        assert_eq!(samples.of("broken").count(), 0);
        assert_eq!(samples.of("not").count(), 0);
    }
}
