//! Stories in `tests/stories/*.md`: states of a cluster, and what the command line says about them.
//! `tests/stories/README.md` describes the format. `UPDATE_STORIES=1` updates the expected output.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that fails may panic"
)]

mod objects;
mod page;
mod pods;
mod state;
mod vary;
mod words;

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::sync::Mutex;

use rollplan_world::json as builders;

use self::page::{Block, Command, Story};
use self::state::State;
use self::vary::Renaming;
use self::words::{split, timestamp};

/// A line that stands for any number of lines.
const OMITTED: &str = "…";

/// The commands that read a state with `-f`, and are told the time.
const READERS: [&str; 7] = [
    "status", "plan", "forecast", "history", "undo", "restarts", "uses",
];

#[test]
fn stories_have_the_expected_answers() {
    let update = std::env::var("UPDATE_STORIES").ok();
    let queue: Mutex<VecDeque<PathBuf>> = Mutex::new(files().into());
    let failures = Mutex::new(BTreeMap::new());
    let worker = || {
        loop {
            let Some(path) = queue.lock().unwrap().pop_front() else {
                break;
            };
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if update
                .as_ref()
                .is_some_and(|it| it.ends_with(".md") && *it != name)
            {
                continue;
            }
            let is_updated = update.as_ref().is_some_and(|it| it == "1" || *it == name);
            let found = check(&path, &name, is_updated);
            if !found.is_empty() {
                failures.lock().unwrap().insert(name, found.join("\n"));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(worker);
        }
    });
    let failures: Vec<String> = failures.into_inner().unwrap().into_values().collect();
    assert!(
        failures.is_empty(),
        "{}\n\nUPDATE_STORIES=1, or the name of a file, writes the answers (+) into the files; read them before you commit",
        failures.join("\n")
    );
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// All files in the directory. A file that has no stories is an error.
fn files() -> Vec<PathBuf> {
    let entries = fs::read_dir(repository("tests/stories")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| !path.ends_with("README.md") && !path.ends_with("runner"));
    for path in &files {
        let is_page = path.extension().is_some_and(|it| it == "md");
        assert!(is_page, "{} is not a story", path.display());
    }
    assert!(!files.is_empty(), "no stories");
    files.sort();
    files
}

/// The failures of a file. An update writes the answers, and leaves failures that it cannot resolve.
fn check(path: &Path, name: &str, is_updated: bool) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let stories = match page::stories(&text) {
        Ok(stories) => stories,
        Err(error) => return vec![format!("{name}:{error}")],
    };
    let mut failures = Vec::new();
    let mut changes = Changes::default();
    for story in &stories {
        if let Err(found) = tell(story, &mut changes) {
            let title = format!("{name}: {}\n", story.title);
            failures.extend(
                found
                    .into_iter()
                    .map(|failure| format!("{title}{name}:{failure}")),
            );
        }
    }
    if is_updated && !changes.is_empty() {
        fs::write(path, changes.apply(&text)).unwrap();
        // The second run shows what the update could not resolve.
        return check(path, name, false);
    }
    failures
}

/// New lines of a file: the output of a command, by its line, and rows of tables.
#[derive(Default)]
struct Changes {
    outputs: BTreeMap<usize, (usize, Vec<String>)>,
    rows: BTreeMap<usize, String>,
}

/// Checks a story, once for each row of its table.
fn tell(story: &Story, changes: &mut Changes) -> Result<(), Vec<String>> {
    let mut failures = Vec::new();
    let Some(table) = &story.table else {
        let told = Telling::new(&story.blocks, false).and_then(|it| it.run(&story.blocks));
        for failure in told.map_err(|error| vec![error])? {
            changes
                .outputs
                .insert(failure.line, (failure.expected, failure.updated()));
            failures.push(failure.to_string());
        }
        return if failures.is_empty() {
            Ok(())
        } else {
            Err(failures)
        };
    };
    for (line, cells) in &table.rows {
        let mut blocks = story.with(&table.names, cells);
        let mut answers = table
            .names
            .iter()
            .zip(cells)
            .filter(|(name, _)| story.is_answer(name));
        if table.names.iter().any(|name| story.is_answer(name))
            && answers.all(|(_, cell)| cell.is_empty())
        {
            // A row without answers would accept too much.
            page::forget(&mut blocks);
        }
        match Telling::new(&blocks, true).and_then(|it| it.run(&blocks)) {
            Err(error) => failures.push(format!("{error} (row in line {line})")),
            Ok(found) => {
                if let Some(first) = found.first() {
                    failures.push(format!("{line}: {first}"));
                    let mut cells = cells.clone();
                    for failure in &found {
                        fill(story, &table.names, &mut cells, failure);
                    }
                    changes.rows.insert(*line, page::row(&cells));
                }
            }
        }
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures)
    }
}

/// Sets the cells that are answers from an output. A line whose cells are all empty is not printed.
fn fill(story: &Story, names: &[String], cells: &mut [String], failure: &Failure) {
    let Some(command) = story.commands().find(|it| it.line == failure.line) else {
        return;
    };
    let mut lines = failure.printed.as_slice();
    let mut is_omitted = false;
    for template in &command.expected {
        if template == OMITTED {
            is_omitted = true;
            continue;
        }
        let place = |name: &String| format!("{{{name}}}");
        let found = names
            .iter()
            .position(|name| template.contains(&place(name)) && story.is_answer(name));
        let (before, after) = match found {
            Some(found) => template
                .split_once(&place(&names[found]))
                .unwrap_or_default(),
            None => (template.as_str(), ""),
        };
        let (before, after) = (
            with_cells(before, names, cells),
            with_cells(after, names, cells),
        );
        let inner = |line: &String| {
            let inner = line.strip_prefix(&*before)?.strip_suffix(&*after);
            inner
                .filter(|_| found.is_some() || *line == before)
                .map(str::to_owned)
        };
        let count = if is_omitted {
            lines.len()
        } else {
            1.min(lines.len())
        };
        let at = lines[..count].iter().position(|line| inner(line).is_some());
        if let Some(found) = found {
            cells[found] = at.and_then(|at| inner(&lines[at])).unwrap_or_default();
        }
        if let Some(at) = at {
            lines = &lines[at + 1..];
            is_omitted = false;
        }
    }
}

fn with_cells(text: &str, names: &[String], cells: &[String]) -> String {
    let filled = names.iter().zip(cells);
    filled.fold(text.to_owned(), |text, (name, cell)| {
        text.replace(&format!("{{{name}}}"), cell)
    })
}

/// The lines of an output as they were before they were broken.
fn whole(lines: Vec<String>) -> Vec<String> {
    let mut whole: Vec<String> = Vec::new();
    for line in lines {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        let is_item = text.starts_with("remedy: ") || text.starts_with("- ");
        match whole
            .last_mut()
            .filter(|last| last.starts_with(' ') && indent >= 4 && !is_item)
        {
            Some(last) => *last = format!("{last} {text}"),
            None => whole.push(line),
        }
    }
    whole
}

/// An output that is not as expected.
struct Failure {
    line: usize,
    /// How many lines are expected.
    expected: usize,
    /// What the output is compared with, and the variation.
    wanted: Vec<String>,
    variation: Option<&'static str>,
    printed: Vec<String>,
}

/// A story that is being told.
struct Telling {
    directory: tempfile::TempDir,
    /// Whether the story has files: their names are not changed.
    has_files: bool,
    /// Whether lines are not broken, because they are cells of a table.
    is_whole: bool,
}

// === impl Changes ===

impl Changes {
    fn is_empty(&self) -> bool {
        self.outputs.is_empty() && self.rows.is_empty()
    }

    fn apply(&self, text: &str) -> String {
        let mut lines = Vec::new();
        let mut skipped = 0;
        for (number, line) in (1..).zip(text.lines()) {
            if skipped > 0 {
                skipped -= 1;
                continue;
            }
            lines.push(self.rows.get(&number).map_or(line, String::as_str));
            if let Some((count, output)) = self.outputs.get(&number) {
                skipped = *count;
                lines.extend(output.iter().map(String::as_str));
            }
        }
        lines.join("\n") + "\n"
    }
}

// === impl Failure ===

impl Failure {
    /// The output for the file. Where lines are omitted today, those after the causes are omitted again.
    fn updated(&self) -> Vec<String> {
        let is_detail = |line: &str| line.is_empty() || line.starts_with("  limit:");
        let mut lines = self.printed.clone();
        let is_short = self.wanted.is_empty() || self.wanted.iter().any(|it| it == OMITTED);
        if let Some(end) = lines
            .iter()
            .position(|it| is_detail(it))
            .filter(|_| is_short)
        {
            let exit = lines.pop().filter(|line| line.starts_with("[exit code"));
            lines.truncate(end);
            lines.push(OMITTED.to_owned());
            lines.extend(exit);
        }
        lines
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let variation = self
            .variation
            .map_or(String::new(), |it| format!(" ({it})"));
        writeln!(f, "{}: not as expected{variation}", self.line)?;
        for line in &self.wanted {
            writeln!(f, "- {line}")?;
        }
        for line in &self.printed {
            writeln!(f, "+ {line}")?;
        }
        Ok(())
    }
}

// === impl Telling ===

impl Telling {
    fn new(blocks: &[Block], is_whole: bool) -> Result<Self, String> {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        // The files of the repository have the same names.
        for name in ["examples", "tests"] {
            std::os::unix::fs::symlink(repository(name), directory.path().join(name)).unwrap();
        }
        let has_files = blocks.iter().any(|it| matches!(it, Block::File { .. }));
        Ok(Self {
            directory,
            has_files,
            is_whole,
        })
    }

    fn run(&self, blocks: &[Block]) -> Result<Vec<Failure>, String> {
        let mut state = None;
        let mut failures = Vec::new();
        for block in blocks {
            match block {
                Block::State(lines) => state.get_or_insert_with(State::default).read(lines)?,
                Block::Objects(lines) => state.get_or_insert_with(State::default).add(lines)?,
                Block::File { path, lines } => self.write(path, &lines.text),
                Block::Console(commands) => {
                    for command in commands {
                        let failure = self.command(command, state.as_ref());
                        failures.extend(failure?);
                    }
                }
            }
        }
        Ok(failures)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs a command on the state, and on the state with other names in another order.
    fn command(&self, command: &Command, state: Option<&State>) -> Result<Option<Failure>, String> {
        let wanted = command.expected.clone();
        let failure = |variation, wanted: &[String], printed| {
            Some(Failure {
                line: command.line,
                expected: command.expected.len(),
                wanted: wanted.to_vec(),
                variation,
                printed,
            })
        };
        let error = |error| format!("{}: {error}", command.line);
        let Some(state) = state else {
            let printed = self.printed(&command.args, None).map_err(error)?;
            let is_equal = matches(&parts(&wanted), &printed);
            return Ok(if is_equal {
                None
            } else {
                failure(None, &wanted, printed)
            });
        };
        let mut objects = objects::all(state)?;
        let now = timestamp(state.now);
        self.write("state.json", &builders::list(&objects).to_string());
        let printed = self.printed(&command.args, Some(&now)).map_err(error)?;
        if !matches(&parts(&wanted), &printed) {
            return Ok(failure(None, &wanted, printed));
        }
        if self.has_files {
            return Ok(None);
        }
        let renaming = Renaming::of(&objects);
        let renamed = renaming.text(&wanted.join("\n"));
        let renamed: Vec<String> = renamed.lines().map(str::to_owned).collect();
        vary::reverse(&mut objects);
        let reversed = objects.clone();
        objects.iter_mut().for_each(|object| renaming.value(object));
        self.write("state.json", &builders::list(&objects).to_string());
        let args = renaming.text(&command.args);
        let printed = self.printed(&args, Some(&now)).map_err(error)?;
        if has_words(&parts(&renamed), &printed) {
            return Ok(None);
        }
        self.write("state.json", &builders::list(&reversed).to_string());
        let in_order = self.printed(&command.args, Some(&now)).map_err(error)?;
        Ok(if has_words(&parts(&wanted), &in_order) {
            failure(Some("with other names"), &renamed, printed)
        } else {
            failure(Some("in another order"), &wanted, in_order)
        })
    }

    /// The output and the errors of a command, and its exit code unless it is 0.
    fn printed(&self, args: &str, now: Option<&str>) -> Result<Vec<String>, String> {
        let mut args = split(args)?;
        if let (Some(now), Some(verb)) = (now, args.first().cloned()) {
            let reads = |it: &String| matches!(&**it, "-f" | "--filename" | "--snapshot");
            if !args.iter().any(reads) {
                args.extend(["-f", "state.json"].map(str::to_owned));
            }
            if READERS.contains(&&*verb) && !args.iter().any(|it| it == "--now") {
                args.extend(["--now", now].map(str::to_owned));
            }
        }
        let output = process::Command::new(env!("CARGO_BIN_EXE_rollplan"))
            .args(&args)
            .current_dir(self.directory.path())
            .env_remove("ROLLPLAN_SERVER")
            .env_remove("KUBECTL")
            .env("COLUMNS", "100")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
        let mut lines: Vec<String> = text.concat().lines().map(str::to_owned).collect();
        match output.status.code() {
            Some(0) => {}
            Some(code) => lines.push(format!("[exit code {code}]")),
            None => lines.push("[signal]".to_owned()),
        }
        Ok(if self.is_whole { whole(lines) } else { lines })
    }
}

/// The lines between those that are omitted.
fn parts(lines: &[String]) -> Vec<&[String]> {
    lines.split(|line| line == OMITTED).collect()
}

/// Whether lines consist of parts, with other lines only between them.
fn matches(parts: &[&[String]], lines: &[String]) -> bool {
    let (Some((first, rest)), Some(last)) = (parts.split_first(), parts.last()) else {
        return false;
    };
    if rest.is_empty() {
        return **first == *lines;
    }
    let Some(mut lines) = lines.strip_prefix(*first) else {
        return false;
    };
    for part in &rest[..rest.len() - 1] {
        let at = lines
            .windows(part.len().max(1))
            .position(|it| part.is_empty() || it == *part);
        match at {
            Some(at) => lines = &lines[at + part.len()..],
            None => return false,
        }
    }
    lines.ends_with(last)
}

/// Whether lines consist of parts, wherever lines are broken.
fn has_words(parts: &[&[String]], lines: &[String]) -> bool {
    let words = |lines: &[String]| -> Vec<String> {
        lines
            .iter()
            .flat_map(|line| line.split_whitespace())
            .map(str::to_owned)
            .collect()
    };
    let parts: Vec<Vec<String>> = parts.iter().map(|part| words(part)).collect();
    let parts: Vec<&[String]> = parts.iter().map(Vec::as_slice).collect();
    matches(&parts, &words(lines))
}

// The harness itself.

/// The error of a story with this state, or the failures of its command.
fn told(text: &str) -> Result<usize, String> {
    let stories = page::stories(text)?;
    let mut changes = Changes::default();
    match tell(&stories[0], &mut changes) {
        Ok(()) => Ok(0),
        Err(failures) => {
            if changes.is_empty() {
                Err(failures.concat())
            } else {
                Ok(failures.len())
            }
        }
    }
}

#[test]
fn errors_in_a_story_have_a_line_number() {
    let console = "```console\n$ rollplan status\n…\n```\n";
    for (text, error) in [
        ("# Nothing\n", "1: no story"),
        ("## A\n", "1: the story checks nothing"),
        ("## A\n```states\n```\n", "2: unknown block \"states\""),
        ("## A\n```state\n", "2: the block does not end"),
        (
            &format!("## A\n```state\npods web\n```\n{console}"),
            "3: unknown word pods\n  pods web",
        ),
        (
            &format!("## A\n```state\npod web ready color=red\n```\n{console}"),
            "3: unknown word color (pod web)",
        ),
        (
            &format!("## A\n```state\npod web ready\n  probe x\n```\n{console}"),
            "4: unknown word probe\n    probe x",
        ),
        (
            &format!("## A\n```state\njob a active=x\n```\n{console}"),
            "3: active=x: invalid digit found in string (job a)",
        ),
        (
            &format!("## A\n```state\npod web\n```\n{console}"),
            "3: the state of the container is missing: ready, running, starting, waiting=... (pod web)",
        ),
        (
            &format!("## A\n{console}\n| color |\n| --- |\n| red |\n"),
            "1: {color} is not in the story",
        ),
    ] {
        assert_eq!(told(text), Err(error.to_owned()), "{text}");
    }
}

#[test]
fn output_must_be_the_expected_one() {
    let story = |expected: &str| {
        format!(
            "## A\n```state\npod web ready\n```\n```console\n$ rollplan status\n{expected}```\n"
        )
    };
    for (expected, failures) in [
        ("Pod shop/web: complete\npod \"web\" is ready\n", 0),
        ("Pod shop/web: complete\n…\n", 0),
        ("…\npod \"web\" is ready\n", 0),
        ("Pod shop/web: complete\n", 1),
        ("pod \"web\" is ready\n", 1),
        ("Pod shop/web\n…\n", 1),
        ("Pod shop/web: complete\n…\n[exit code 3]\n", 1),
        ("", 1),
    ] {
        assert_eq!(told(&story(expected)), Ok(failures), "{expected}");
    }
    // A row without answers accepts nothing.
    let table = "| answer |\n| --- |\n| |\n";
    assert_eq!(told(&format!("{}{table}", story("{answer}\n…\n"))), Ok(1));
}
