//! The imports between the files of the crates point inward and form no cycles.
//!
//! A folder and the files in it may import each other, because they are one subject. A circle that leaves the folder and
//! returns to it is a cycle nevertheless.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Attribute, Item, UseTree};

/// The rings, each with the rings that it may import.
const RINGS: [(&str, &[&str]); 11] = [
    ("canary", &["core", "health"]),
    ("core", &[]),
    ("forecast", &["core", "simulation"]),
    ("health", &["core"]),
    ("restart", &["core"]),
    ("simulation", &["core"]),
    ("wire", &["canary", "core", "forecast", "health", "restart"]),
    ("text", &["health", "wire"]),
    (
        "service",
        &["canary", "core", "forecast", "health", "restart", "wire"],
    ),
    ("server", &["core", "service", "text", "wire"]),
    (
        "cli",
        &[
            "canary", "core", "forecast", "health", "restart", "server", "service", "text", "wire",
        ],
    ),
];

/// The ring that is part of the main crate. Each other one is a crate of its own.
const MAIN: &str = "cli";

/// The module path of a file. Its first part is the ring.
type Module = Vec<String>;

/// The imports of every file.
#[derive(Default)]
struct Imports(BTreeMap<Module, BTreeSet<Module>>);

#[test]
fn rings_point_inward() {
    let imports = Imports::of_the_crates();
    let found: BTreeSet<&str> = imports.0.keys().filter_map(|it| ring(it)).collect();
    assert_eq!(found, RINGS.map(|(ring, _)| ring).into());
    assert_eq!(imports.outward(), [""; 0]);
}

#[test]
fn no_cycles_between_files() {
    assert_eq!(Imports::of_the_crates().cycles(), [""; 0]);
}

/// The folders and files of each ring form layers.
#[test]
fn no_cycles_between_folders() {
    let all = Imports::of_the_crates();
    let rings = RINGS.iter().filter(|(ring, _)| *ring != "health");
    let folders: Vec<Imports> = rings.map(|(ring, _)| all.folders_of(ring)).collect();
    for imports in &folders {
        assert!(imports.0.len() > 2, "{:?}", imports.0.keys());
    }
    let cycles: Vec<String> = folders.iter().flat_map(Imports::cycles).collect();
    assert_eq!(cycles, [""; 0]);
}

#[test]
fn outward_imports_and_cycles_are_reported() {
    let mut imports = Imports::default();
    let mut add = |module: &str, source: &str| {
        let module = module.split("::").map(str::to_owned).collect();
        imports.0.insert(module, BTreeSet::new());
        source.to_owned()
    };
    let sources = [
        ("wire", "mod a; mod b; use crate::a::A;"),
        ("wire::a", "use super::b::{B, C};"),
        ("wire::b", "fn f() { matches!(g(), Some(crate::c::D)) }"),
        ("wire::c", "use crate::{a::A}; use rollplan_core::plan;"),
        ("text", "#[cfg(test)] mod tests { use crate::cli; }"),
        ("server", "use self::x; const X: usize = rollplan_cli::X;"),
        ("cli", "mod a; mod b; pub use rollplan_core::plan;"),
        ("cli::a", "use super::b::B;"),
        ("cli::b", "mod c; use self::c::C;"),
        ("cli::b::c", "use crate::cli::a::A; use super::B;"),
        ("core", "use rollplan_health::report;"),
        ("health", "mod report; use rollplan_core::plan;"),
        ("health::report", "use crate::report;"),
    ]
    .map(|(module, source)| (module, add(module, source)));
    for (module, source) in sources {
        let module: Module = module.split("::").map(str::to_owned).collect();
        imports.read(&module, syn::parse_str(&source).unwrap());
    }
    assert_eq!(
        imports.outward(),
        ["core imports health::report", "server imports cli"]
    );
    assert_eq!(
        imports.cycles(),
        [
            "cli::a imports cli::b",
            "cli::b::c imports cli::a",
            "wire::a imports wire::b",
            "wire::b imports wire::c",
            "wire::c imports wire::a",
        ]
    );
}

fn ring(module: &Module) -> Option<&str> {
    module.first().map(String::as_str)
}

// === impl Imports ===

impl Imports {
    fn of_the_crates() -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut files = BTreeMap::new();
        collect(&source.join("lib.rs"), &Vec::new(), &mut files);
        for (name, _) in RINGS.iter().filter(|(name, _)| *name != MAIN) {
            let root = source.join(name).join("lib.rs");
            collect(&root, &vec![(*name).to_owned()], &mut files);
        }
        // The root of the main crate is part of no ring.
        files.remove(&Vec::new());
        let mut imports = Self(
            files
                .keys()
                .map(|it| (it.clone(), BTreeSet::new()))
                .collect(),
        );
        for (module, file) in files {
            imports.read(&module, file);
        }
        imports
    }

    fn read(&mut self, module: &Module, file: syn::File) {
        let mut paths = Vec::new();
        for item in file.items.iter().filter(|item| !is_test(item)) {
            match item {
                Item::Use(item) => expand(&item.tree, &Vec::new(), &mut paths),
                item => written(item.to_token_stream(), &mut paths),
            }
        }
        let imported: BTreeSet<Module> = paths
            .iter()
            .filter_map(|path| self.resolve(module, path))
            .filter(|imported| imported != module)
            .collect();
        self.0.entry(module.clone()).or_default().extend(imported);
    }

    /// The file to which a path in a module refers.
    fn resolve(&self, module: &Module, path: &[String]) -> Option<Module> {
        let mut resolved = match path.first()?.as_str() {
            "crate" => {
                let own = ring(module).filter(|ring| *ring != MAIN);
                own.map(str::to_owned).into_iter().collect()
            }
            "self" => module.clone(),
            "super" => module[..module.len() - 1].to_vec(),
            other => match other.strip_prefix("rollplan_") {
                Some(name) if RINGS.iter().any(|(ring, _)| *ring == name) => vec![name.to_owned()],
                _ => return None,
            },
        };
        for name in &path[1..] {
            if name == "super" {
                resolved.pop();
                continue;
            }
            resolved.push(name.clone());
            if !self.0.contains_key(&resolved) {
                resolved.pop();
                break;
            }
        }
        self.0.contains_key(&resolved).then_some(resolved)
    }

    /// The imports between the folders of a ring, and between the files beside them.
    fn folders_of(&self, of: &str) -> Self {
        let folder = |module: &Module| module[..module.len().min(2)].to_vec();
        let mut folders = Self::default();
        for (module, imported) in &self.0 {
            if ring(module) == Some(of) {
                let imported = imported.iter().filter(|it| ring(it) == Some(of));
                let imported = imported.map(folder).filter(|it| *it != folder(module));
                folders
                    .0
                    .entry(folder(module))
                    .or_default()
                    .extend(imported);
            }
        }
        folders
    }

    fn outward(&self) -> Vec<String> {
        let mut outward = Vec::new();
        for (module, imported) in &self.0 {
            let (_, allowed) = RINGS[RINGS
                .iter()
                .position(|(name, _)| Some(*name) == ring(module))
                .unwrap()];
            for imported in imported {
                let to = ring(imported).unwrap();
                if Some(to) != ring(module) && !allowed.contains(&to) {
                    outward.push(format!(
                        "{} imports {}",
                        module.join("::"),
                        imported.join("::")
                    ));
                }
            }
        }
        outward
    }

    /// The imports from which other imports lead back, without the files of the folders that contain both ends.
    fn cycles(&self) -> Vec<String> {
        let mut cycles = Vec::new();
        for (module, imported) in &self.0 {
            for to in imported {
                let is_of_folder = to.starts_with(module) || module.starts_with(to);
                if !is_of_folder && self.reaches(to, module) {
                    cycles.push(format!("{} imports {}", module.join("::"), to.join("::")));
                }
            }
        }
        cycles
    }

    fn reaches(&self, from: &Module, to: &Module) -> bool {
        let is_folder_of_both = |it: &Module| from.starts_with(it) && to.starts_with(it);
        let mut reached = BTreeSet::new();
        let mut next = vec![from];
        while let Some(module) = next.pop() {
            if !is_folder_of_both(module) && reached.insert(module) {
                next.extend(&self.0[module]);
            }
        }
        reached.contains(to)
    }
}

/// Parses a file and the files of its modules, except for tests.
fn collect(file: &Path, module: &Module, files: &mut BTreeMap<Module, syn::File>) {
    let source = std::fs::read_to_string(file).unwrap();
    let parsed = syn::parse_file(&source).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    for item in parsed.items.iter().filter(|item| !is_test(item)) {
        if let Item::Mod(item) = item
            && item.content.is_none()
        {
            let mut child = module.clone();
            child.push(item.ident.to_string());
            collect(&file_of(file, &item.ident.to_string()), &child, files);
        }
    }
    files.insert(module.clone(), parsed);
}

fn file_of(parent: &Path, name: &str) -> PathBuf {
    let is_face = parent.ends_with("mod.rs") || parent.ends_with("lib.rs");
    let folder = if is_face {
        parent.with_file_name("")
    } else {
        parent.with_extension("")
    };
    let file = folder.join(format!("{name}.rs"));
    if file.exists() {
        file
    } else {
        folder.join(name).join("mod.rs")
    }
}

fn is_test(item: &Item) -> bool {
    let attributes: &[Attribute] = match item {
        Item::Mod(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        _ => &[],
    };
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && attribute.to_token_stream().to_string().contains("test")
    })
}

/// The paths of an import.
fn expand(tree: &UseTree, prefix: &Module, paths: &mut Vec<Module>) {
    let with = |name: String| prefix.iter().cloned().chain([name]).collect();
    match tree {
        UseTree::Path(path) => expand(&path.tree, &with(path.ident.to_string()), paths),
        UseTree::Name(name) => paths.push(with(name.ident.to_string())),
        UseTree::Rename(rename) => paths.push(with(rename.ident.to_string())),
        UseTree::Glob(_) => paths.push(prefix.clone()),
        UseTree::Group(group) => {
            for tree in &group.items {
                expand(tree, prefix, paths);
            }
        }
    }
}

/// The paths in the rest of the code, including macros.
fn written(tokens: TokenStream, paths: &mut Vec<Module>) {
    let mut path = Module::new();
    let mut colons = 0;
    let mut is_after_pub = false;
    for token in tokens {
        // A visibility such as `pub(in crate::a)` imports nothing.
        let is_visibility = is_after_pub && matches!(token, TokenTree::Group(_));
        is_after_pub = matches!(&token, TokenTree::Ident(name) if name == "pub");
        if is_visibility {
            continue;
        }
        match token {
            TokenTree::Ident(name) => {
                if colons != 2 {
                    paths.push(std::mem::take(&mut path));
                }
                path.push(name.to_string());
                colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            TokenTree::Group(group) => {
                paths.push(std::mem::take(&mut path));
                colons = 0;
                written(group.stream(), paths);
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {
                paths.push(std::mem::take(&mut path));
                colons = 0;
            }
        }
    }
    paths.push(path);
}
