//! A chart of lines, as SVG.

use std::fmt::Write as _;

use super::escape;

const WIDTH: f64 = 920.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 44.0;

/// A line.
pub struct Series {
    /// What it is called in the legend.
    pub name: String,
    /// Its colour.
    pub colour: &'static str,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Lines over the same axes.
pub struct Chart<'a> {
    /// What is along the horizontal axis.
    pub x: &'a str,
    /// What is along the vertical axis.
    pub y: &'a str,
    /// Whether the horizontal axis is logarithmic.
    pub logarithmic: bool,
    /// The lines.
    pub series: Vec<Series>,
}

/// From where to where an axis goes.
struct Range {
    from: f64,
    to: f64,
}

impl Range {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let (from, to) = values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(from, to), value| (from.min(value), to.max(value)));
        if from < to {
            Self { from, to }
        } else {
            Self { from: from.min(0.0), to: from.clamp(0.0, f64::MAX) + 1.0 }
        }
    }

    fn part(&self, value: f64) -> f64 {
        ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }

    /// Round numbers across it.
    fn ticks(&self) -> Vec<f64> {
        let raw = (self.to - self.from) / 6.0;
        let magnitude = libm::pow(10.0, libm::floor(libm::log10(raw)));
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|by| by * magnitude)
            .into_iter()
            .find(|&step| step >= raw)
            .unwrap_or(raw);
        let mut ticks = Vec::new();
        let mut tick = libm::ceil(self.from / step) * step;
        while tick <= self.to + step * 1e-9 && ticks.len() < 20 {
            ticks.push(tick);
            tick += step;
        }
        ticks
    }
}

impl Chart<'_> {
    /// The chart.
    pub fn draw(&self) -> String {
        let scaled = |x: f64| if self.logarithmic { libm::log10(x) } else { x };
        let points = || self.series.iter().flat_map(|series| &series.points);
        let across = Range::of(points().map(|&(x, _)| scaled(x)));
        let up = Range { from: 0.0, to: Range::of(points().map(|&(_, y)| y).chain([0.0])).to };
        let at_x = |x: f64| LEFT + across.part(scaled(x)) * (WIDTH - LEFT - RIGHT);
        let at_y = |y: f64| HEIGHT - BOTTOM - up.part(y) * (HEIGHT - TOP - BOTTOM);
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{} over {}\">",
            escape(self.y),
            escape(self.x)
        );
        for tick in up.ticks() {
            let y = at_y(tick);
            let _ = write!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                round(tick)
            );
        }
        let ticks = if self.logarithmic {
            (-4..7)
                .map(|power| libm::pow(10.0, f64::from(power)))
                .filter(|&x| scaled(x) >= across.from && scaled(x) <= across.to)
                .collect()
        } else {
            across.ticks()
        };
        for tick in ticks {
            let x = at_x(tick);
            let (top, bottom) = (HEIGHT - BOTTOM, HEIGHT - BOTTOM + 4.0);
            let _ = write!(
                svg,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{bottom}\" stroke=\"#333\"/>\
                 <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 12.0,
                round(tick)
            );
        }
        self.label(&mut svg);
        for series in &self.series {
            let path: Vec<_> =
                series.points.iter().map(|&(x, y)| format!("{:.1},{:.1}", at_x(x), at_y(y))).collect();
            let _ = write!(
                svg,
                "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" points=\"{}\"><title>{}</title></polyline>",
                series.colour,
                path.join(" "),
                escape(&series.name)
            );
        }
        svg + "</svg>"
    }

    fn label(&self, svg: &mut String) {
        let _ = write!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"#333\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text><text x=\"4\" y=\"14\">{}</text>",
            WIDTH - RIGHT,
            WIDTH - RIGHT,
            HEIGHT - 8.0,
            escape(self.x),
            escape(self.y),
            y = HEIGHT - BOTTOM
        );
        let mut x = LEFT + 30.0;
        for series in &self.series {
            let _ = write!(
                svg,
                "<rect x=\"{x}\" y=\"6\" width=\"14\" height=\"8\" fill=\"{}\"/><text x=\"{}\" y=\"14\">{}</text>",
                series.colour,
                x + 18.0,
                escape(&series.name)
            );
            x += 40.0 + 7.0 * crate::figures::count(series.name.chars().count());
        }
    }
}

/// A number with no more digits than it needs.
fn round(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() || text == "-0" { "0".to_owned() } else { text.to_owned() }
}
