//! The properties of Hadoop's configuration files:
//! `<configuration><property><name/><value/></property>…</configuration>`, as its `Configuration`
//! reads them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use quick_xml::{
    Reader, XmlVersion,
    events::{BytesStart, Event},
};

use crate::error::{Error, Result};

/// The maximum size of all included files together, far beyond that of any real configuration.
const MAX_SIZE: usize = 4 << 20;
/// The maximum depth of includes.
const MAX_DEPTH: usize = 8;
/// The maximum nesting depth of elements.
const MAX_LEVELS: usize = 16;

/// The properties of one or more files. A later property overrides an earlier one, unless that is
/// final.
#[derive(Clone, Debug, Default)]
pub(super) struct Properties {
    pub(crate) values: BTreeMap<String, String>,
    finals: BTreeSet<String>,
    size: usize,
}

/// The source of a text.
#[derive(Clone, Copy)]
struct Source<'a> {
    /// The file, or `None` for a text that was passed as such.
    file: Option<&'a Path>,
    depth: usize,
}

/// A property that is being parsed.
#[derive(Default)]
struct Property {
    name: String,
    value: String,
    is_final: String,
}

/// An open `xi:include`, and the reason if it has failed.
struct Include {
    failure: Option<Error>,
    has_fallback: bool,
}

impl fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.file {
            Some(file) => write!(f, "{}", file.display()),
            None => f.write_str("hbase-site.xml"),
        }
    }
}

/// Reads the properties of an `hbase-site.xml` from its text.
///
/// # Errors
///
/// Returns an error if the text is not an `hbase-site.xml`, or includes a file by a relative path.
pub fn site_properties(xml: &str) -> Result<BTreeMap<String, String>> {
    let mut site = Properties::default();
    site.add_text(xml)?;
    Ok(site.values)
}

impl Properties {
    /// Adds the properties of a text. It cannot include relative paths, because a text has no
    /// folder.
    pub(crate) fn add_text(&mut self, xml: &str) -> Result<()> {
        self.add(xml, Source { file: None, depth: 0 })
    }

    /// Adds the properties of a file, and of the files that it includes.
    pub(super) fn add_file(&mut self, file: &Path) -> Result<()> {
        self.read(file, 0)
    }

    fn read(&mut self, file: &Path, depth: usize) -> Result<()> {
        let source = Source {
            file: Some(file),
            depth,
        };
        let mut xml = String::new();
        File::open(file)
            .and_then(|opened| opened.take(MAX_SIZE as u64 + 1).read_to_string(&mut xml))
            .map_err(|error| Error::invalid_config(format!("{source}: {error}")))?;
        self.add(&xml, source)
    }

    fn add(&mut self, xml: &str, source: Source<'_>) -> Result<()> {
        self.size = self.size.saturating_add(xml.len());
        if self.size > MAX_SIZE {
            return Err(Error::invalid_config(format!(
                "{source}: {} bytes, with all that is included; {MAX_SIZE} is the limit",
                self.size
            )));
        }
        let mut reader = Reader::from_str(xml);
        let mut path: Vec<String> = Vec::new();
        let mut includes: Vec<Include> = Vec::new();
        let mut property = Property::default();
        loop {
            let at = reader.buffer_position();
            let broken =
                |why: &dyn fmt::Display| Error::invalid_config(format!("{source}: byte {at}: {why}"));
            let text: String = match reader.read_event().map_err(|error| broken(&error))? {
                Event::Eof if path.is_empty() => return Ok(()),
                Event::Eof => {
                    return Err(broken(&format_args!("<{}> is never closed", path.join("><"))));
                }
                Event::Start(tag) => {
                    path.push(local_name(&tag));
                    if path.len() > MAX_LEVELS {
                        return Err(broken(&"too many levels"));
                    }
                    self.begin(&tag, &mut property, &mut includes, source)?;
                    continue;
                }
                Event::Empty(tag) => {
                    self.begin(&tag, &mut property, &mut includes, source)?;
                    self.end(&local_name(&tag), &mut property, &mut includes)?;
                    continue;
                }
                Event::End(_) => {
                    let name = path.pop().unwrap_or_default();
                    self.end(&name, &mut property, &mut includes)?;
                    continue;
                }
                Event::Text(text) => text.xml10_content().into_owned(),
                Event::CData(text) => text.xml10_content().into_owned(),
                Event::GeneralRef(reference) => {
                    match reference.resolve_char_ref().map_err(|error| broken(&error))? {
                        Some(character) => character.to_string(),
                        None => quick_xml::escape::resolve_predefined_entity(&reference)
                            .ok_or_else(|| broken(&format_args!("unknown entity &{};", &*reference)))?
                            .to_owned(),
                    }
                }
                _ => continue,
            };
            match path.last().map(String::as_str) {
                Some("name") => property.name.push_str(&text),
                Some("value") => property.value.push_str(&text),
                Some("final") => property.is_final.push_str(&text),
                _ => {}
            }
        }
    }

    /// Processes the attributes of an element, and reads a file that it includes.
    fn begin(
        &mut self,
        tag: &BytesStart<'_>,
        property: &mut Property,
        includes: &mut Vec<Include>,
        source: Source<'_>,
    ) -> Result<()> {
        let element = local_name(tag);
        let mut href = None;
        for attribute in tag.attributes() {
            let refuse =
                |why: &dyn fmt::Display| Error::invalid_config(format!("{source}: <{element}>: {why}"));
            let attribute = attribute.map_err(|error| refuse(&error))?;
            let value = attribute.normalized_value(XmlVersion::Implicit1_0);
            let value = value.map_err(|error| refuse(&error))?.into_owned();
            match (&*element, attribute.key.into_inner()) {
                ("property", "name") => property.name = value,
                ("property", "value") => property.value = value,
                ("property", "final") => property.is_final = value,
                ("include", "href") => href = Some(value),
                _ => {}
            }
        }
        match (&*element, includes.last_mut()) {
            ("fallback", Some(include)) => include.has_fallback = true,
            ("include", _) => {
                let failure = match href.filter(|_| !is_passed_over(includes)) {
                    Some(href) => self.include(&href, source)?,
                    None => None,
                };
                includes.push(Include {
                    failure,
                    has_fallback: false,
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends an element. Adds a complete property, and fails for a failed include without a
    /// fallback.
    fn end(&mut self, element: &str, property: &mut Property, includes: &mut Vec<Include>) -> Result<()> {
        match element {
            "property" => {
                let Property {
                    name,
                    value,
                    is_final,
                } = std::mem::take(property);
                let name = name.trim();
                if !is_passed_over(includes) && !self.finals.contains(name) {
                    self.values.insert(name.to_owned(), value);
                    if is_final.trim() == "true" {
                        self.finals.insert(name.to_owned());
                    }
                }
            }
            "include" => {
                if let Some(Include {
                    failure: Some(error),
                    has_fallback: false,
                }) = includes.pop()
                {
                    return Err(error);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds the properties of an included file. Returns the reason if it cannot be read; then a
    /// fallback is used.
    fn include(&mut self, href: &str, source: Source<'_>) -> Result<Option<Error>> {
        let refuse = |why: &dyn fmt::Display| {
            Error::invalid_config(format!("{source}: xi:include of {href:?}: {why}"))
        };
        let path = href.strip_prefix("file://").unwrap_or(href);
        let path = path.strip_prefix("file:").unwrap_or(path);
        if path.contains("://") {
            return Ok(Some(refuse(&"nothing is read over the network")));
        }
        let Some(file) = source.file else {
            return Ok(Some(refuse(
                &"the text is in no folder; read the file itself (Config::from_hbase_site_file)",
            )));
        };
        if source.depth >= MAX_DEPTH {
            return Err(refuse(&format_args!(
                "files include each other more than {MAX_DEPTH} deep"
            )));
        }
        let folder = file.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        let path = folder.join(path);
        // A file that is not a regular file may be endless, or block until a writer opens it.
        match path.metadata() {
            Ok(metadata) if metadata.is_file() => {}
            Ok(_) => return Ok(Some(refuse(&"it is no plain file"))),
            Err(error) => return Ok(Some(refuse(&error))),
        }
        self.read(&path, source.depth + 1).map(|()| None)
    }
}

/// Whether the current element is in the fallback of an include that has not failed.
fn is_passed_over(includes: &[Include]) -> bool {
    includes.iter().any(|include| include.failure.is_none())
}

fn local_name(tag: &BytesStart<'_>) -> String {
    tag.local_name().into_inner().to_owned()
}

/// Returns the value of a switch of security.
///
/// # Errors
///
/// Refuses every other word. Hadoop takes it for the default, which is mostly the less safe one: `yes`
/// would switch TLS off.
pub(super) fn switch(key: &str, word: Option<String>) -> Result<Option<bool>> {
    let Some(word) = word else { return Ok(None) };
    match word.to_ascii_lowercase().as_str() {
        "true" => Ok(Some(true)),
        "false" => Ok(Some(false)),
        _ => Err(Error::invalid_config(format!(
            "{key} is {word:?}, and can be true or false"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rstest::rstest;

    use super::*;

    fn property(name: &str, value: &str) -> String {
        format!("<property><name>{name}</name><value>{value}</value></property>")
    }

    fn file(body: &str) -> String {
        format!("<configuration xmlns:xi=\"http://www.w3.org/2001/XInclude\">{body}</configuration>")
    }

    /// Reads `main.xml` with this content, in a folder with these other files.
    fn read(main: &str, others: &[(&str, &str)]) -> Result<BTreeMap<String, String>> {
        let folder = tempfile::tempdir().unwrap();
        for (name, body) in others.iter().chain(&[("main.xml", main)]) {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file(body)).unwrap();
        }
        let mut properties = Properties::default();
        properties.add_file(&folder.path().join("main.xml"))?;
        Ok(properties.values)
    }

    #[test]
    fn files_are_included_where_they_are_named_relative_to_the_file() {
        let values = read(
            &(property("a", "1")
                + "<xi:include href=\"more/b.xml\"/>"
                + &property("c", "3")
                + "<xi:include href=\"more/b.xml\"><xi:fallback>"
                + &property("d", "not this")
                + "</xi:fallback></xi:include>"),
            &[
                (
                    "more/b.xml",
                    &(property("b", "2") + "<xi:include href=\"../c.xml\"/>"),
                ),
                ("c.xml", &(property("a", "x") + &property("c", "y"))),
            ],
        );
        let values = values.unwrap();
        let values: Vec<_> = values.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(values, [("a", "x"), ("b", "2"), ("c", "y")]);
    }

    #[rstest]
    #[case("not-there.xml")]
    #[case("http://127.0.0.1:1/b.xml")]
    #[case("/dev/zero")]
    #[case(".")]
    fn include_without_fallback_is_refused_by_name(#[case] href: &str) {
        let include = |inside: &str| format!("<xi:include href=\"{href}\">{inside}</xi:include>");
        let error = read(&include(""), &[]).unwrap_err().to_string();
        assert!(
            error.contains("main.xml: xi:include of") && error.contains(href),
            "{error}"
        );
        let fallback = format!("<xi:fallback>{}</xi:fallback>", property("a", "1"));
        assert_eq!(read(&include(&fallback), &[]).unwrap()["a"], "1");
        let mut text = Properties::default();
        let error = text.add_text(&file(&include(""))).unwrap_err();
        assert!(error.to_string().contains(href), "{error}");
    }

    #[test]
    fn files_that_include_each_other_and_broken_ones_are_refused() {
        let include = |file: &str| format!("<xi:include href=\"{file}\"><xi:fallback/></xi:include>");
        let error = read(&include("main.xml"), &[]).unwrap_err().to_string();
        assert!(error.contains("8 deep"), "{error}");
        let error = read(&include("b.xml"), &[("b.xml", "<property>")]).unwrap_err();
        assert!(error.to_string().contains("b.xml: byte"), "{error}");
        let many = format!("<!--{}-->", "x".repeat(1 << 20));
        let error = read(&include("b.xml").repeat(5), &[("b.xml", &many)]).unwrap_err();
        assert!(error.to_string().contains("is the limit"), "{error}");
    }

    #[test]
    fn later_properties_count_unless_an_earlier_one_is_final() {
        let xml = property("a", "1")
            + &property("a", "2")
            + "<property><name>b</name><value>1</value><final> true </final></property>"
            + &property("b", "2")
            + "<property name=\"c\" value=\"1 &lt; 2\" final=\"true\"/><property name=\"c\" value=\"3\"/>";
        let mut properties = Properties::default();
        properties.add_text(&file(&xml)).unwrap();
        properties.add_text(&file(&property("b", "3"))).unwrap();
        let values = ["a", "b", "c"].map(|name| &*properties.values[name]);
        assert_eq!(values, ["2", "1", "1 < 2"]);
    }
}
