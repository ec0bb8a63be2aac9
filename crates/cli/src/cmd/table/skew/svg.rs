//! The bars of the page, and escaped text.

use std::fmt::{self, Display, Write as _};

/// A bar in SVG. Its lengths are in percent of the available width, so it keeps its height and its
/// thin lines at any width. The row around it has the same information as text.
#[derive(Debug, Default)]
pub(super) struct Bar(String);

impl Bar {
    /// Adds a part of the bar; the title is its tooltip.
    pub(super) fn part(mut self, from: f64, length: f64, class: &str, title: &str) -> Self {
        let title = match title {
            "" => String::new(),
            title => format!("<title>{}</title>", Escaped(title)),
        };
        self.add(format_args!(
            r#"<rect class="{class}" x="{from:.2}%" y="3" width="{length:.2}%" height="10">{title}</rect>"#
        ));
        self
    }

    /// Adds a vertical line that is as high as the bar.
    pub(super) fn line(mut self, at: f64, class: &str) -> Self {
        self.vertical(at, 3, 13, class);
        self
    }

    /// Adds a vertical line that is higher than the bar.
    pub(super) fn mark(mut self, at: f64, class: &str) -> Self {
        self.vertical(at, 0, 16, class);
        self
    }

    /// Adds a horizontal line across the middle of the bar.
    pub(super) fn span(mut self, from: f64, to: f64, class: &str) -> Self {
        self.add(format_args!(
            r#"<line class="{class}" x1="{from:.2}%" y1="8" x2="{to:.2}%" y2="8"/>"#
        ));
        self
    }

    fn vertical(&mut self, at: f64, top: u8, bottom: u8, class: &str) {
        self.add(format_args!(
            r#"<line class="{class}" x1="{at:.2}%" y1="{top}" x2="{at:.2}%" y2="{bottom}"/>"#
        ));
    }

    fn add(&mut self, element: fmt::Arguments<'_>) {
        // Writing to a string can't fail.
        let _ = self.0.write_fmt(element);
    }
}

impl Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, r#"<svg aria-hidden="true">{}</svg>"#, self.0)
    }
}

/// Text with all markup escaped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Escaped<T>(pub(super) T);

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
        let text = Bar::default().part(0.0, 1.0, "bar", hostile).to_string();
        assert!(!text.contains("<script") && !text.contains("' onload"), "{text}");
        assert_eq!(Escaped("a<b>&'\"c").to_string(), "a&lt;b&gt;&amp;&#39;&quot;c");
    }
}
