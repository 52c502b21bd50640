//! The picture: the rate of each kernel over its arithmetic intensity, below the roof. Both axes are logarithmic.

use std::fmt::Write;
use std::ops::RangeInclusive;

use super::{Kernel, Limit, Roofline};

/// The drawing area within the picture, in pixels.
const LEFT: f64 = 70.0;
const TOP: f64 = 56.0;
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 400.0;
/// Where the list of kernels begins, and the distance of its lines.
const LIST: f64 = LEFT + WIDTH + 36.0;
const LINE: f64 = 19.0;
/// Kernels that the list names; the others are dots without a number.
const NAMED: usize = 20;
/// Characters of a name.
const NAME: usize = 44;

/// A logarithmic axis: the decades that it shows, and where they are drawn.
struct Axis {
    decades: RangeInclusive<i32>,
    from: f64,
    to: f64,
}

impl Axis {
    /// An axis that shows all values.
    fn of(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Axis {
        let logarithms: Vec<f64> = values.filter(|value| *value > 0.0).map(f64::log10).collect();
        let least = logarithms.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let decades = if least <= greatest { least.floor() as i32..=greatest.ceil() as i32 } else { 0..=1 };
        let decades = if decades.start() == decades.end() { *decades.start()..=decades.end() + 1 } else { decades };
        Axis { decades, from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let (first, last) = (f64::from(*self.decades.start()), f64::from(*self.decades.end()));
        self.from + (self.to - self.from) * (value.log10() - first) / (last - first)
    }

    fn first(&self) -> f64 {
        10f64.powi(*self.decades.start())
    }

    fn last(&self) -> f64 {
        10f64.powi(*self.decades.end())
    }
}

/// Draws the kernels with arithmetic; `function` is the called function.
pub(super) fn svg(roofline: &Roofline, function: &str) -> String {
    let peak = &roofline.peak;
    let point = |kernel: &Kernel| Some((kernel.intensity().filter(|number| *number > 0.0)?, kernel.gigaflops()?));
    let drawn: Vec<(&Kernel, (f64, f64))> =
        roofline.kernels.iter().filter_map(|kernel| Some((kernel, point(kernel)?))).collect();
    let ridge = peak.gigaflops / peak.gigabytes;
    let intensities = drawn.iter().map(|(_, point)| point.0).chain([ridge / 2.0, ridge * 2.0]);
    let x = Axis::of(intensities, LEFT, LEFT + WIDTH);
    let y = Axis::of(drawn.iter().map(|(_, point)| point.1).chain([peak.gigaflops]), TOP + HEIGHT, TOP);
    let lines = drawn.len().min(NAMED) as f64;
    let (width, height) = (LIST + 430.0, (TOP + HEIGHT + 56.0).max(TOP + 24.0 + LINE * lines));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    text(&mut out, LEFT, 24.0, "", &format!("Roofline of @{function}"));
    axes(&mut out, &x, &y);
    roof(&mut out, roofline, &x, &y);
    let total = roofline.seconds().max(f64::MIN_POSITIVE);
    for (at, (kernel, (intensity, rate))) in drawn.iter().enumerate().rev() {
        let share = kernel.seconds / total;
        let color = match Limit::of(*intensity, peak).0 {
            Limit::Compute => "#1f6fb4",
            Limit::Memory => "#d9822b",
        };
        let (left, top, radius) = (x.at(*intensity), y.at(*rate), 3.0 + 26.0 * share.sqrt());
        let _ = writeln!(
            out,
            "<circle cx=\"{left:.1}\" cy=\"{top:.1}\" r=\"{radius:.1}\" fill=\"{color}\" fill-opacity=\"0.45\" stroke=\"{color}\"/>"
        );
        if at < NAMED {
            text(&mut out, left, top + 4.0, "text-anchor=\"middle\" font-size=\"10\"", &(at + 1).to_string());
            let name: String = kernel.name.chars().take(NAME).collect();
            let line = format!("{}  {name}, {:.0}%, {rate:.1} GFLOP/s", at + 1, share * 100.0);
            text(&mut out, LIST, TOP + 8.0 + LINE * at as f64, &format!("fill=\"{color}\" font-size=\"11\""), &line);
        }
    }
    out.push_str("</svg>\n");
    out
}

/// Draws the grid and names the axes.
fn axes(out: &mut String, x: &Axis, y: &Axis) {
    let (bottom, right) = (TOP + HEIGHT, LEFT + WIDTH);
    for decade in x.decades.clone() {
        let at = x.at(10f64.powi(decade));
        line(out, [at, TOP, at, bottom], "stroke=\"#ddd\"");
        text(out, at, bottom + 18.0, "text-anchor=\"middle\"", &power(decade));
    }
    for decade in y.decades.clone() {
        let at = y.at(10f64.powi(decade));
        line(out, [LEFT, at, right, at], "stroke=\"#ddd\"");
        text(out, LEFT - 8.0, at + 4.0, "text-anchor=\"end\"", &power(decade));
    }
    text(
        out,
        LEFT + WIDTH / 2.0,
        bottom + 40.0,
        "text-anchor=\"middle\"",
        "arithmetic intensity, operations for each byte",
    );
    text(out, LEFT, TOP - 10.0, "", "GFLOP/s; area: share of the time");
}

/// Draws the roof: what memory allows up to the ridge, then the rate of arithmetic.
fn roof(out: &mut String, roofline: &Roofline, x: &Axis, y: &Axis) {
    let peak = &roofline.peak;
    let ridge = peak.gigaflops / peak.gigabytes;
    // The slope leaves the drawing area at the bottom, or at the left.
    let start = x.first().max(y.first() / peak.gigabytes);
    let style = "stroke=\"#333\" stroke-width=\"1.5\"";
    line(out, [x.at(start), y.at(start * peak.gigabytes), x.at(ridge), y.at(peak.gigaflops)], style);
    line(out, [x.at(ridge), y.at(peak.gigaflops), x.at(x.last()), y.at(peak.gigaflops)], style);
    let end = LEFT + WIDTH - 4.0;
    let compute = format!("{:.0} GFLOP/s, {}", peak.gigaflops, peak.of_threads());
    text(out, end, y.at(peak.gigaflops) - 6.0, "text-anchor=\"end\"", &compute);
    let memory = format!("{:.1} GB/s", peak.gigabytes);
    text(out, x.at(ridge) - 8.0, y.at(peak.gigaflops) - 6.0, "text-anchor=\"end\"", &memory);
}

/// A power of ten as people write it.
fn power(decade: i32) -> String {
    match decade {
        0.. => format!("{:.0}", 10f64.powi(decade)),
        _ => format!("{:.*}", decade.unsigned_abs() as usize, 10f64.powi(decade)),
    }
}

fn line(out: &mut String, [from_x, from_y, to_x, to_y]: [f64; 4], style: &str) {
    let _ = writeln!(out, "<line x1=\"{from_x:.1}\" y1=\"{from_y:.1}\" x2=\"{to_x:.1}\" y2=\"{to_y:.1}\" {style}/>");
}

/// Writes text, without the characters that mean something in XML.
fn text(out: &mut String, x: f64, y: f64, style: &str, text: &str) {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{escaped}</text>");
}

#[cfg(test)]
mod tests {
    use super::super::tests::roofline;
    use super::*;

    #[test]
    fn kernels_with_arithmetic_are_drawn() {
        let picture = svg(&roofline(), "f");
        assert_eq!(picture.matches("<circle").count(), 2);
        assert!(picture.contains("1  matmul&lt;1&gt;, 60%, 50.0 GFLOP/s") && !picture.contains("sort"));
        assert!(picture.contains("100 GFLOP/s, 2 threads") && picture.ends_with("</svg>\n"));
    }

    #[test]
    fn axes_show_all_values_in_whole_decades() {
        let axis = Axis::of([0.5, 30.0].into_iter(), 0.0, 300.0);
        assert_eq!((axis.decades.clone(), axis.at(0.1), axis.at(100.0)), (-1..=2, 0.0, 300.0));
        assert_eq!(Axis::of([1.0].into_iter(), 0.0, 1.0).decades, 0..=1);
        assert_eq!((power(-2), power(3)), ("0.01".to_owned(), "1000".to_owned()));
    }
}
