//! docs/compatibility.md says of every field and of every feature what becomes of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use whalezen_dialects::kueue::configuration::{
    Version,
    fields::{Treatment, fields},
    gates::GATES,
};

use super::kueue_module;

fn page() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility.md");
    fs::read_to_string(page).unwrap()
}

/// The rows of the page's table: for each section what is honoured, what is ignored and what is refused.
fn rows() -> BTreeMap<String, [String; 3]> {
    let page = page();
    let (_, table) = page.split_once("| section | honoured |").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|')).flat_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, sections, honoured, ignored, refused, _] = cells.as_slice() else { panic!("{line}") };
        let cells = [honoured, ignored, refused].map(|cell| (*cell).to_owned());
        names(sections).into_iter().map(move |section| (section, cells.clone())).collect::<Vec<_>>()
    });
    rows.collect()
}

fn names(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect()
}

fn column(treatment: Treatment) -> usize {
    match treatment {
        Treatment::Honoured => 0,
        Treatment::Ignored(_) => 1,
        Treatment::Refused(_) => 2,
    }
}

fn split(path: &str) -> (String, String) {
    let path = path.replace("[]", "");
    let (section, rest) = path.split_once('.').unwrap_or((&path, ""));
    (section.to_owned(), rest.to_owned())
}

#[test]
fn the_page_on_compatibility_lists_every_field_as_it_is_treated() {
    let rows = rows();
    let covers = |cell: &str, rest: &str| {
        cell.starts_with("all") || names(cell).iter().any(|name| rest.strip_prefix(name.as_str()).is_some())
    };
    let mut wrong = Vec::new();
    for (path, treatment) in fields(Version::V1Beta2) {
        let (section, rest) = split(path);
        let listed = rows.get(&section).is_some_and(|cells| covers(&cells[column(*treatment)], &rest));
        if !listed {
            wrong.push(format!("{path} is missing as {treatment:?}"));
        }
    }
    for (section, cells) in &rows {
        for (index, cell) in cells.iter().enumerate() {
            let fits = |name: &str| {
                fields(Version::V1Beta2).any(|(path, treatment)| {
                    let (of, rest) = split(path);
                    of == *section && column(*treatment) == index && rest.starts_with(name)
                })
            };
            let named = names(cell);
            let whole = if cell.starts_with("all") { vec![String::new()] } else { named };
            wrong.extend(
                whole.iter().filter(|name| !fits(name)).map(|name| format!("{section}.{name} is not so")),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What the table of features names: the proposals by their numbers, and the feature gates.
fn features() -> (BTreeSet<String>, Vec<String>) {
    let page = page();
    let (_, table) = page.split_once("| feature | KEP | gates | here |").unwrap();
    let (mut proposals, mut gates) = (BTreeSet::new(), Vec::new());
    for line in table.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, _, numbers, named, here, _] = cells.as_slice() else { panic!("{line}") };
        assert!(!here.is_empty(), "{line}");
        proposals.extend(numbers.split(", ").filter(|number| !number.is_empty()).map(ToOwned::to_owned));
        gates.extend(names(named));
    }
    (proposals, gates)
}

#[test]
fn the_page_on_compatibility_names_every_proposal_and_every_feature_gate_of_kueue() {
    let (proposals, mut gates) = features();
    let folders = fs::read_dir(kueue_module::folder().join("keps")).unwrap();
    let folders = folders.map(|folder| folder.unwrap().file_name().into_string().unwrap());
    let numbers: BTreeSet<String> = folders.filter_map(|folder| number(&folder)).collect();
    assert_eq!(proposals, numbers);
    gates.sort_unstable();
    assert_eq!(gates, GATES.iter().map(|(name, ..)| (*name).to_owned()).collect::<Vec<_>>());
}

/// The number of a proposal, by the name of its folder: `168-2-pending-workloads-visibility` is 168-2.
fn number(folder: &str) -> Option<String> {
    let parts = folder.split('-').take_while(|part| part.parse::<u32>().is_ok());
    let number = parts.collect::<Vec<_>>().join("-");
    (!number.is_empty()).then_some(number)
}
