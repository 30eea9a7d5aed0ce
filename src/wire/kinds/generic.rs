//! Reads the fields of kinds without a view of their own, as their row in the table of kinds names them.

use rollplan_health::kinds::Fields;
use rollplan_health::kinds::table::Row;

use super::field::Field;
use super::views::conditions;

/// The fields that a row reads.
pub(super) fn fields<'a, 'f>(
    row: &Row,
    spec: &Field<'a, 'f>,
    status: &Field<'a, 'f>,
    has_status_subresource: Option<bool>,
) -> Fields {
    let at = |path: &str| match path.split_once('.') {
        Some(("spec", path)) => values(spec, path),
        Some(("status", path)) => values(status, path),
        _ => Vec::new(),
    };
    let text = |path| Some((path, at(path).first()?.scalar()?));
    let number = |path| {
        let numbers: Vec<i64> = at(path).iter().filter_map(Field::number).collect();
        let sum = numbers
            .iter()
            .fold(0_i64, |sum, it| sum.saturating_add(*it));
        (!numbers.is_empty()).then_some((path, sum))
    };
    let nested = row.nested.map(|nested| at(nested.path));
    let nested = nested.and_then(|lists| lists.first().map(Field::list));
    Fields {
        has_status: !status.is_empty(),
        has_status_subresource,
        texts: row.texts().filter_map(text).collect(),
        numbers: row.numbers().filter_map(number).collect(),
        nested: nested.unwrap_or_default().iter().map(conditions).collect(),
    }
}

/// The values at a path such as "health.status". With "[]" after the name of a list, those in each of its items.
fn values<'a, 'f>(root: &Field<'a, 'f>, path: &str) -> Vec<Field<'a, 'f>> {
    let mut found = vec![root.clone()];
    for name in path.split('.') {
        found = match name.strip_suffix("[]") {
            Some(name) => found.iter().flat_map(|it| it.get(name).list()).collect(),
            None => found.iter().map(|it| it.get(name)).collect(),
        };
    }
    found
}
