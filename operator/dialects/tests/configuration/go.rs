//! What can be read off Kueue's Go source: the fields of a struct, and the feature gates.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use super::kueue_module;

/// The text of a file of Kueue's module.
pub fn source(path: &str) -> String {
    let file = kueue_module::folder().join(path);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("no {}: {error}", file.display()))
}

/// The structs of a file: the JSON name (empty if the field is inline) and the type of each field.
fn structs(source: &str) -> BTreeMap<String, Vec<(String, String)>> {
    let mut structs: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let mut current: Option<String> = None;
    for line in source.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("type ").and_then(|line| line.strip_suffix(" struct {")) {
            structs.insert(name.to_owned(), vec![]);
            current = Some(name.to_owned());
        } else if line == "}" {
            current = None;
        } else if let Some(name) = &current
            && let Some((declaration, tag)) = line.split_once("`json:\"")
        {
            let json = tag.split(['"', ',']).next().unwrap().to_owned();
            let type_ = declaration.split_whitespace().last().unwrap().to_owned();
            structs.get_mut(name).unwrap().push((json, type_));
        }
    }
    structs
}

/// The paths of all fields of `Configuration`, to the last one whose type is told here, in the form that our list has.
/// The second set is of those whose type is told elsewhere.
pub fn fields(source: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let structs = structs(source);
    let (mut leaves, mut foreign) =
        (BTreeSet::from(["apiVersion".to_owned(), "kind".to_owned()]), BTreeSet::new());
    let mut open = vec![(String::new(), "Configuration".to_owned())];
    while let Some((path, type_)) = open.pop() {
        for (json, member) in structs.get(&type_).into_iter().flatten() {
            let name = member.trim_start_matches('*');
            let (name, list) = name.strip_prefix("[]").map_or((name, false), |item| (item, true));
            let dot = if path.is_empty() || json.is_empty() { "" } else { "." };
            let at = format!("{path}{dot}{json}");
            if structs.contains_key(name) {
                open.push((if list { format!("{at}[]") } else { at }, name.to_owned()));
            } else if !json.is_empty() {
                if name.contains('.') && !name.starts_with("map[") {
                    foreign.insert(at.clone());
                }
                leaves.insert(at);
            }
        }
    }
    (leaves, foreign)
}

/// The feature gates with their latest default and whether that is locked.
pub fn gates() -> BTreeMap<String, (bool, bool)> {
    let source = source("pkg/features/kube_features.go");
    let (_, list) = source.split_once("var defaultVersionedFeatureGates").unwrap();
    let mut gates = BTreeMap::new();
    let mut current = "";
    for line in list.lines().map(str::trim) {
        if let Some(name) = line.strip_suffix(": {") {
            current = name;
        } else if let Some((_, rest)) = line.split_once("Default: ") {
            gates
                .insert(current.to_owned(), (rest.starts_with("true"), rest.contains("LockToDefault: true")));
        }
    }
    gates
}

/// The text after `name` and `=` in a list of constants.
pub fn constant(source: &str, name: &str) -> String {
    let line = source.lines().map(str::trim).find(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '\t']) && rest.contains('='))
    });
    let line = line.unwrap_or_else(|| panic!("Kueue has no constant {name}"));
    line.split_once('=').unwrap().1.trim().to_owned()
}
