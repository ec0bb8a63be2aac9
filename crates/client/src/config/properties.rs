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
/// The root of each file.
const ROOT: &str = "configuration";
/// The maximum nesting depth of elements.
const MAX_LEVELS: usize = 16;

/// The properties of one or more files. A later property overrides an earlier one, unless that is
/// final.
#[derive(Clone, Debug, Default)]
pub(super) struct Properties {
    values: BTreeMap<String, Stated>,
    finals: BTreeSet<String>,
    size: usize,
}

/// A property as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stated {
    value: String,
    /// The file and the line where it ends.
    place: String,
}

/// The source of a text.
#[derive(Clone, Copy)]
struct Source<'a> {
    /// The file, or `None` for a text that was passed as such.
    file: Option<&'a Path>,
    depth: usize,
}

/// A property that is being parsed. Of several names or values the last one counts.
#[derive(Default)]
struct Property {
    name: String,
    /// `None` for a property without a value, which leaves an earlier one as it is.
    value: Option<String>,
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
    let values = site.values.into_iter();
    Ok(values.map(|(name, stated)| (name, stated.value)).collect())
}

impl Properties {
    /// Adds the properties of a text. It cannot include relative paths, because a text has no
    /// folder.
    pub(crate) fn add_text(&mut self, xml: &str) -> Result<()> {
        self.add(xml, Source { file: None, depth: 0 })
    }

    /// Returns the value of a property.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|stated| &*stated.value)
    }

    /// Returns the file and the line of a property.
    pub(super) fn place(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|stated| &*stated.place)
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
        let refuse = |why: &dyn fmt::Display| Error::invalid_config(format!("{source}: {why}"));
        let mut xml = Vec::new();
        File::open(file)
            .and_then(|opened| opened.take(MAX_SIZE as u64 + 1).read_to_end(&mut xml))
            .map_err(|error| refuse(&error))?;
        let xml = String::from_utf8(xml)
            .map_err(|_| refuse(&"not in UTF-8, the only encoding that is read here"))?;
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
        let xml = xml.strip_prefix('\u{feff}').unwrap_or(xml);
        let mut reader = Reader::from_str(xml);
        let mut path: Vec<String> = Vec::new();
        let mut has_root = false;
        let mut includes: Vec<Include> = Vec::new();
        let mut property = Property::default();
        let (mut line, mut counted) = (1, 0);
        loop {
            let at = usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX);
            let passed = xml.as_bytes().get(counted..at).unwrap_or_default();
            line += passed.iter().filter(|byte| **byte == b'\n').count();
            counted = at;
            let place = format!("{source}:{line}");
            let broken = |why: &dyn fmt::Display| Error::invalid_config(format!("{place}: {why}"));
            let text: String = match reader.read_event().map_err(|error| broken(&error))? {
                Event::Eof if !path.is_empty() => {
                    return Err(broken(&format_args!("<{}> is never closed", path.join("><"))));
                }
                Event::Eof if has_root => return Ok(()),
                Event::Eof => return Err(broken(&format_args!("there is no <{ROOT}>"))),
                Event::Start(tag) => {
                    let name = local_name(&tag);
                    check_root(&name, &path, &mut has_root).map_err(|why| broken(&why))?;
                    path.push(name);
                    if path.len() > MAX_LEVELS {
                        return Err(broken(&"too many levels"));
                    }
                    self.begin(&tag, &mut property, &mut includes, source)?;
                    continue;
                }
                Event::Empty(tag) => {
                    check_root(&local_name(&tag), &path, &mut has_root).map_err(|why| broken(&why))?;
                    self.begin(&tag, &mut property, &mut includes, source)?;
                    self.end(&local_name(&tag), &mut property, &mut includes, &place)?;
                    continue;
                }
                Event::End(_) => {
                    let name = path.pop().unwrap_or_default();
                    self.end(&name, &mut property, &mut includes, &place)?;
                    continue;
                }
                Event::Decl(declaration) => {
                    if let Some(Ok(encoding)) = declaration.encoding() {
                        check_encoding(&encoding, xml).map_err(|why| broken(&why))?;
                    }
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
                None if !text.trim().is_empty() => {
                    return Err(broken(&format_args!("text outside of <{ROOT}>")));
                }
                Some("name") => property.name.push_str(&text),
                Some("value") => property.value.get_or_insert_default().push_str(&text),
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
                ("property", "value") => property.value = Some(value),
                ("property", "final") => property.is_final = value,
                ("include", "href") => href = Some(value),
                _ => {}
            }
        }
        match (&*element, includes.last_mut()) {
            ("name", _) => property.name.clear(),
            ("value", _) => property.value = Some(String::new()),
            ("final", _) => property.is_final.clear(),
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
    fn end(
        &mut self,
        element: &str,
        property: &mut Property,
        includes: &mut Vec<Include>,
        place: &str,
    ) -> Result<()> {
        match element {
            "property" => {
                let Property {
                    name,
                    value,
                    is_final,
                } = std::mem::take(property);
                let name = name.trim();
                let Some(value) = value else { return Ok(()) };
                if !is_passed_over(includes) && !self.finals.contains(name) {
                    let place = place.to_owned();
                    self.values.insert(name.to_owned(), Stated { value, place });
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

/// Refuses an element outside of the root, and another root than that of Hadoop's files. Java takes the
/// properties under any root, and those of a file without a root are the defaults: another cluster.
fn check_root(name: &str, path: &[String], has_root: &mut bool) -> Result<(), String> {
    if !path.is_empty() {
        return Ok(());
    }
    if *has_root {
        return Err(format!("<{name}> after the end of <{ROOT}>"));
    }
    if name != ROOT {
        return Err(format!("<{name}> in place of <{ROOT}>"));
    }
    *has_root = true;
    Ok(())
}

/// Refuses a text whose declared encoding gives its bytes another meaning.
fn check_encoding(encoding: &str, xml: &str) -> Result<(), String> {
    let same = ["utf-8", "utf8", "us-ascii"]
        .iter()
        .any(|same| encoding.eq_ignore_ascii_case(same));
    if same || xml.is_ascii() {
        return Ok(());
    }
    Err(format!("it is declared as {encoding}; only UTF-8 is read here"))
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
        let values = properties.values.into_iter();
        Ok(values.map(|(name, stated)| (name, stated.value)).collect())
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
        assert!(error.to_string().contains("b.xml:1: "), "{error}");
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
        let values = ["a", "b", "c"].map(|name| properties.value(name).unwrap());
        assert_eq!(values, ["2", "1", "1 < 2"]);
    }
}
