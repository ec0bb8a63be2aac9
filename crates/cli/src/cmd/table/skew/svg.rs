//! The subset of SVG that the page needs, and escaped text.

use std::fmt::{self, Display, Write as _};

/// Text with all markup escaped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Escaped<T>(pub(super) T);

/// A picture and its text alternative, which is empty if a text beside it has the same information.
/// It takes the available width.
#[derive(Debug)]
pub(super) struct Svg {
    width: f64,
    height: f64,
    label: String,
    body: String,
}

/// The alignment of a text to its position.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64, label: &str) -> Self {
        Self {
            width,
            height,
            label: label.to_owned(),
            body: String::new(),
        }
    }

    /// Adds a box; the title is its tooltip.
    pub(super) fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str, title: &str) {
        let title = match title {
            "" => String::new(),
            title => format!("<title>{}</title>", Escaped(title)),
        };
        self.add(format_args!(
            r#"<rect class="{class}" x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}">{title}</rect>"#
        ));
    }

    pub(super) fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        self.add(format_args!(
            r#"<line class="{class}" x1="{x1:.2}" y1="{y1:.2}" x2="{x2:.2}" y2="{y2:.2}"/>"#
        ));
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = Escaped(text);
        self.add(format_args!(
            r#"<text x="{x:.2}" y="{y:.2}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    fn add(&mut self, element: fmt::Arguments<'_>) {
        // Writing to a string can't fail.
        let _ = self.body.write_fmt(element);
    }
}

impl Display for Svg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.label.as_str() {
            "" => f.write_str(r#"<svg aria-hidden="true""#)?,
            label => write!(f, r#"<svg role="img" aria-label="{}""#, Escaped(label))?,
        }
        write!(
            f,
            r#" viewBox="0 0 {} {}" style="max-width:{}px">{}</svg>"#,
            self.width, self.height, self.width, self.body
        )
    }
}

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '&' => self.0.write_str("&amp;")?,
                '<' => self.0.write_str("&lt;")?,
                '>' => self.0.write_str("&gt;")?,
                '"' => self.0.write_str("&quot;")?,
                '\'' => self.0.write_str("&#39;")?,
                c => self.0.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_markup() {
        let hostile = r#"</title><script>alert("x")</script>' onload='&"#;
        let mut svg = Svg::new(10.0, 5.0, hostile);
        svg.rect((0.0, 0.0), (1.0, 1.0), "bar", hostile);
        svg.text((0.0, 0.0), Anchor::End, hostile);
        let text = svg.to_string();
        assert!(!text.contains("<script") && !text.contains("' onload"), "{text}");
        assert_eq!(Escaped("a<b>&'\"c").to_string(), "a&lt;b&gt;&amp;&#39;&quot;c");
    }
}
