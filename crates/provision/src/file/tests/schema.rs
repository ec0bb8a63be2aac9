//! The schema for editors agrees with the parser: it has the same keys, and accepts and refuses the
//! same files.

use std::fs;

use serde_json::{Map, Value, json};
use toml::de::DeValue;

use super::*;

fn schema() -> Value {
    let text = fs::read_to_string(examples::folder().join("table.schema.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Converts a TOML document to JSON.
fn value(toml: &DeValue<'_>) -> Value {
    match toml {
        DeValue::String(text) => json!(text),
        DeValue::Integer(number) => json!(i64::from_str_radix(number.as_str(), number.radix()).unwrap()),
        DeValue::Float(number) => json!(number.as_str().parse::<f64>().unwrap()),
        DeValue::Boolean(flag) => json!(flag),
        DeValue::Datetime(time) => json!(time.to_string()),
        DeValue::Array(list) => list.iter().map(|item| value(item.get_ref())).collect(),
        DeValue::Table(entries) => Value::Object(table(entries)),
    }
}

fn table(toml: &DeTable<'_>) -> Map<String, Value> {
    toml.iter()
        .map(|(key, item)| (key.get_ref().to_string(), value(item.get_ref())))
        .collect()
}

fn document(text: &str) -> Value {
    Value::Object(table(DeTable::parse(text).unwrap().get_ref()))
}

/// Whether a value conforms to a schema. Supports only the keywords that this project's schema
/// uses.
fn holds(root: &Value, schema: &Value, value: &Value) -> bool {
    let words = match schema {
        Value::Bool(any) => return *any,
        Value::Object(words) => words,
        other => panic!("{other} is no schema"),
    };
    words.iter().all(|(word, wanted)| match word.as_str() {
        "$schema" | "title" | "description" | "default" | "definitions" | "then" | "else" => true,
        "$ref" => {
            let path = wanted.as_str().unwrap().trim_start_matches('#');
            holds(root, root.pointer(path).unwrap(), value)
        }
        "type" => match wanted {
            Value::Array(types) => types.iter().any(|one| is_of_type(value, one.as_str().unwrap())),
            one => is_of_type(value, one.as_str().unwrap()),
        },
        "enum" => wanted.as_array().unwrap().contains(value),
        "const" => wanted == value,
        "required" => wanted
            .as_array()
            .unwrap()
            .iter()
            .all(|key| value.get(key.as_str().unwrap()).is_some()),
        "properties" => wanted.as_object().unwrap().iter().all(|(key, schema)| {
            let value = value.get(key);
            value.is_none_or(|value| holds(root, schema, value))
        }),
        "additionalProperties" => {
            let known = words.get("properties").and_then(Value::as_object);
            value.as_object().is_none_or(|object| {
                let mut others = object
                    .iter()
                    .filter(|(key, _)| known.is_none_or(|known| !known.contains_key(*key)));
                others.all(|(_, value)| holds(root, wanted, value))
            })
        }
        "maxProperties" => value
            .as_object()
            .is_none_or(|object| object.len() as u64 <= wanted.as_u64().unwrap()),
        "items" => value
            .as_array()
            .is_none_or(|list| list.iter().all(|item| holds(root, wanted, item))),
        "minItems" => value
            .as_array()
            .is_none_or(|list| list.len() as u64 >= wanted.as_u64().unwrap()),
        "uniqueItems" => value.as_array().is_none_or(|list| {
            let twice = |at: usize| list[..at].contains(&list[at]);
            !(0..list.len()).any(twice)
        }),
        "minLength" => value
            .as_str()
            .is_none_or(|text| text.len() as u64 >= wanted.as_u64().unwrap()),
        "minimum" => value
            .as_i64()
            .is_none_or(|number| number >= wanted.as_i64().unwrap()),
        "maximum" => value
            .as_i64()
            .is_none_or(|number| number <= wanted.as_i64().unwrap()),
        "pattern" => value.as_str().is_none_or(|text| {
            let pattern = wanted.as_str().unwrap();
            assert_eq!(
                pattern,
                "^([0-9]+d|[0-9]+([.][0-9]+)?[smh]|[Ff][Oo][Rr][Ee][Vv][Ee][Rr])$"
            );
            let digits =
                |number: &str| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
            let number = text.strip_suffix(['s', 'm', 'h']);
            number.is_some_and(|number| number.splitn(2, '.').all(digits))
                || text.strip_suffix('d').is_some_and(digits)
                || text.eq_ignore_ascii_case("forever")
        }),
        "oneOf" => {
            let schemas = wanted.as_array().unwrap().iter();
            schemas.filter(|schema| holds(root, schema, value)).count() == 1
        }
        "if" => {
            let branch = if holds(root, wanted, value) {
                "then"
            } else {
                "else"
            };
            words.get(branch).is_none_or(|schema| holds(root, schema, value))
        }
        other => panic!("the schema uses {other:?}, which nobody here understands"),
    })
}

fn is_of_type(value: &Value, wanted: &str) -> bool {
    match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64(),
        "boolean" => value.is_boolean(),
        other => panic!("unknown type {other}"),
    }
}

fn keys(schema: &Value, pointer: &str) -> Vec<String> {
    let properties = schema.pointer(pointer).unwrap().as_object().unwrap();
    let mut keys: Vec<_> = properties.keys().cloned().collect();
    keys.sort();
    keys
}

/// The known keys that the parser lists when it finds an unknown one.
fn known(text: &str) -> Vec<String> {
    let found = faults(text);
    let list = found.split("known are ").nth(1).unwrap().lines().next().unwrap();
    let mut keys: Vec<_> = list.split(", ").map(str::to_owned).collect();
    keys.sort();
    keys
}

#[test]
fn every_example_is_valid() {
    let schema = schema();
    for (path, _) in examples::all() {
        let text = fs::read_to_string(&path).unwrap();
        assert!(holds(&schema, &schema, &document(&text)), "{}", path.display());
    }
}

#[rstest]
#[case("/properties", "nobody = 1")]
#[case("/properties/partition/properties", "partition = {nobody = 1}")]
#[case("/properties/split/properties", "split = {nobody = 1}")]
#[case("/definitions/family/properties", "family = [{nobody = 1}]")]
fn the_schema_and_the_parser_know_the_same_keys(#[case] pointer: &str, #[case] text: &str) {
    assert_eq!(keys(&schema(), pointer), known(text));
}

#[rstest]
#[case(SOUND, true)]
#[case("table = 'l'\nkind = 'locks'\nregions = 8\nwithout_java_clients = true", true)]
#[case(
    "table = 'l'\nkind = 'latches'\nstate_family = false\nattributes = {PRIORITY = 3}",
    true
)]
#[case("table = 'orders'", false)]
#[case("kind = 'locks'", false)]
#[case("table = 'l'\nkind = 'locks'\nstate_family = true", false)]
#[case("table = 'l'\nkind = 'latches'\nwithout_java_clients = true", false)]
#[case("table = 'l'\nkind = 'latches'\nsplit = {hex = 3}", false)]
#[case("table = 'l'\nkind = 'locks'\nregions = 258", false)]
#[case(
    "table = 'o'\npartition = {prefix_length = 0}\nfamily = [{name = 'f'}]",
    false
)]
#[case(
    "table = 'o'\npartition = {prefix_length = 3, delimiter = '/'}\nfamily = [{name = 'f'}]",
    false
)]
#[case(
    "table = 'o'\npartition = {prefix_length = 3}\nfamily = [{name = 'f', ttl = '1y'}]",
    false
)]
#[case(
    "table = 'o'\npartition = {prefix_length = 3}\nfamily = [{versions = 1}]",
    false
)]
#[case(
    "table = 'o'\npartition = {prefix_length = 3}\nfamily = [{name = 'f', compression = 'zip'}]",
    false
)]
#[case(
    "table = 'o'\npartition = {prefix_length = 3}\nfamily = [{name = 'f', x = 1}]",
    false
)]
#[case("table = 'o'\npartition = {prefix_length = 3}\nfamily = []", false)]
#[case(
    "table = 'o'\npartition = {prefix_length = 3}\nfamily = [{name = 'f'}]\nsplit = {hex = 2, bytes = 2}",
    false
)]
#[case(
    "table = 'o'\npartition = {prefix_length = 3}\nfamily = [{name = 'f'}]\nsplit = {keys = ['a', 'a']}",
    false
)]
#[case(
    "table = 'o'\npartition = {prefix_length = 3}\nfamily = [{name = 'f'}]\nattributes = {X = 1.5}",
    false
)]
fn the_schema_and_the_parser_judge_alike(#[case] text: &str, #[case] sound: bool) {
    let schema = schema();
    assert_eq!(holds(&schema, &schema, &document(text)), sound, "the schema");
    assert_eq!(parse(text).is_ok(), sound, "the parser: {:?}", parse(text));
}
