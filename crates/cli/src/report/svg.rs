//! Pictures: maps, bars and lines, as SVG that takes its colours from the page around it.
//!
//! Each picture has a title that says what it shows, for screen readers. A picture is 360 units wide, about as wide as a
//! telephone shows it, so that text of 12 units is legible. Text stands beside the drawing, never on it.

use super::html::escaped;

const WIDTH: f64 = 360.0;
/// Height of a line of text.
const TEXT: f64 = 16.0;

fn picture(title: &str, height: f64, inside: &str) -> String {
    let title = escaped(title);
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{title}\" \
         xmlns=\"http://www.w3.org/2000/svg\"><title>{title}</title>{inside}</svg>"
    )
}

/// One cell of a map: how full it is, from 0 to 1, and the words shown while the pointer is over it.
pub(super) struct Cell {
    pub(super) full: f64,
    pub(super) wrong: bool,
    pub(super) words: String,
}

/// Cells side by side; the fuller a cell, the stronger its colour.
pub(super) fn map(title: &str, cells: &[Cell]) -> String {
    let columns = (2.0 * (cells.len() as f64).sqrt()).ceil().clamp(1.0, 48.0);
    let side = (WIDTH / columns).min(20.0);
    let rows = (cells.len() as f64 / columns).ceil();
    let mut inside = String::new();
    for (index, Cell { full, wrong, words }) in cells.iter().enumerate() {
        let (row, column) = ((index as f64 / columns).floor(), index as f64 % columns);
        let (x, y, size) = (column.floor() * side, row * side, side - 0.8);
        // An empty cell must still be visible.
        let opacity = 0.95f64.mul_add(full.clamp(0.0, 1.0).powi(2), 0.05);
        let colour = if *wrong { "wrong" } else { "main" };
        let words = escaped(words);
        inside += &format!(
            "<rect class=\"{colour}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{size:.1}\" height=\"{size:.1}\" \
             fill-opacity=\"{:.2}\"><title>{words}</title></rect>",
            if *wrong { 1.0 } else { opacity }
        );
    }
    picture(title, rows * side, &inside)
}

/// A bar with its name, its length from 0 to 1, and its value in words.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) length: f64,
    pub(super) value: String,
    pub(super) wrong: bool,
}

/// Bars below each other.
pub(super) fn bars(title: &str, bars: &[Bar]) -> String {
    let (height, thick) = (38.0, 12.0);
    let mut inside = String::new();
    for (index, Bar { name, length, value, wrong }) in bars.iter().enumerate() {
        let (y, class) = (index as f64 * height, if *wrong { "wrong" } else { "main" });
        // The smallest value above 0 must still be visible.
        let length = if *length > 0.0 { (length.min(1.0) * WIDTH).max(1.0) } else { 0.0 };
        let (name, value, text, bar) = (escaped(name), escaped(value), y + 14.0, y + 19.0);
        inside += &format!(
            "<text class=\"name\" x=\"0\" y=\"{text:.0}\">{name}</text>\
             <text x=\"{WIDTH}\" y=\"{text:.0}\" text-anchor=\"end\">{value}</text>\
             <rect class=\"empty\" x=\"0\" y=\"{bar:.0}\" width=\"{WIDTH}\" height=\"{thick}\"/>\
             <rect class=\"{class}\" x=\"0\" y=\"{bar:.0}\" width=\"{length:.1}\" height=\"{thick}\"/>"
        );
    }
    picture(title, bars.len() as f64 * height, &inside)
}

/// Columns side by side, of heights from 0 to 1, above a scale that names some of them; and one marked position.
pub(super) fn columns(
    title: &str,
    heights: &[f64],
    names: &[(usize, String)],
    mark: Option<(f64, &str)>,
) -> String {
    let (height, each) = (120.0, WIDTH / heights.len().max(1) as f64);
    let mut inside =
        format!("<line class=\"rule\" x1=\"0\" y1=\"{height}\" x2=\"{WIDTH}\" y2=\"{height}\"/>");
    for (index, part) in heights.iter().enumerate().filter(|(_, part)| **part > 0.0) {
        let tall = (part.min(1.0) * (height - 20.0)).max(1.0);
        inside += &format!(
            "<rect class=\"main\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{tall:.1}\"/>",
            index as f64 * each,
            height - tall,
            (each - 0.5).max(0.5)
        );
    }
    for (index, name) in names {
        let x = *index as f64 * each;
        let anchor = if x < 20.0 { "start" } else { "middle" };
        inside += &format!(
            "<text x=\"{x:.0}\" y=\"{:.0}\" text-anchor=\"{anchor}\">{}</text>",
            height + 16.0,
            escaped(name)
        );
    }
    if let Some((at, words)) = mark {
        let x = at * WIDTH;
        inside += &format!(
            "<line class=\"limit\" x1=\"{x:.1}\" y1=\"0\" x2=\"{x:.1}\" y2=\"{height}\"/>\
             <text x=\"{:.0}\" y=\"12\" text-anchor=\"end\">{}</text>",
            x - 6.0,
            escaped(words)
        );
    }
    picture(title, height + 24.0, &inside)
}

/// A point of a line: the name below it, its value, and the value in words.
pub(super) struct Point {
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) words: String,
}

/// The vertical scale of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// Linear, from 0 on.
    Linear,
    /// Logarithmic, by powers of ten; for values above 0.
    Decades,
}

/// Points joined by a line, and a limit with its words. The scale at the left shows some of the values, and the scale
/// below some of the names. The words of each point have its own value.
pub(super) fn line(title: &str, scale: Scale, points: &[Point], limit: Option<(f64, String)>) -> String {
    let (top, height, left, right) = (10.0, 130.0, 84.0, 32.0);
    let on_scale = |value: f64| if scale == Scale::Decades { value.max(1e-300).log10() } else { value };
    let all = points.iter().map(|point| point.value).chain(limit.as_ref().map(|(value, _)| *value));
    let all: Vec<f64> = all.map(on_scale).collect();
    let highest = all.iter().copied().fold(f64::MIN, f64::max);
    let lowest = match scale {
        Scale::Linear => 0.0,
        Scale::Decades => all.iter().copied().fold(f64::MAX, f64::min) - 0.1,
    };
    let span = (highest - lowest).max(1e-9);
    let y = |value: f64| ((highest - on_scale(value)) / span).mul_add(height, top);
    let step = (WIDTH - left - right) / (points.len().max(2) - 1) as f64;
    let x = |index: usize| (index as f64).mul_add(step, left);
    let mut inside =
        format!("<line class=\"rule\" x1=\"{left}\" y1=\"{0}\" x2=\"{WIDTH}\" y2=\"{0}\"/>", top + height);
    let path: Vec<String> = points
        .iter()
        .enumerate()
        .map(|(index, point)| format!("{:.1},{:.1}", x(index), y(point.value)))
        .collect();
    inside += &format!("<polyline class=\"line\" points=\"{}\"/>", path.join(" "));
    // Few enough names that they do not overlap.
    let every = points.len().div_ceil(4).max(1);
    for (index, Point { name, value, words }) in points.iter().enumerate() {
        let (x, y, name) = (x(index), y(*value), escaped(name));
        inside += &format!(
            "<circle class=\"main\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"><title>{name}: {}</title></circle>",
            escaped(words)
        );
        if index.is_multiple_of(every) {
            let below = top + height + TEXT;
            inside += &format!("<text x=\"{x:.0}\" y=\"{below:.0}\" text-anchor=\"middle\">{name}</text>");
        }
    }
    if let Some((value, _)) = &limit {
        let at = y(*value);
        inside +=
            &format!("<line class=\"limit\" x1=\"{left}\" y1=\"{at:.1}\" x2=\"{WIDTH}\" y2=\"{at:.1}\"/>");
    }
    let by_value = |one: &&Point, other: &&Point| one.value.total_cmp(&other.value);
    let ends = [points.iter().max_by(by_value), points.iter().min_by(by_value)];
    let ends = ends.into_iter().flatten().map(|point| (point.value, point.words.clone()));
    // Each name stands at the height of its value, unless another one is already there.
    let mut taken: Vec<f64> = Vec::new();
    for (value, words) in limit.into_iter().chain(ends) {
        let at = y(value);
        if taken.iter().all(|other| (other - at).abs() >= TEXT) {
            let (right, at) = (left - 6.0, at + 4.0);
            let words = escaped(words);
            inside += &format!("<text x=\"{right:.0}\" y=\"{at:.0}\" text-anchor=\"end\">{words}</text>");
        }
        taken.push(at);
    }
    picture(title, top + height + 1.5 * TEXT, &inside)
}
