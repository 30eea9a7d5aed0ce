//! The command line: Kubernetes objects in, plans and status out.
//!
//! Only this module reads files and the clock and runs kubectl. The decisions are made by [`rollplan_wire`], in
//! this process or in a service.

mod cluster;
mod commands;
mod course;
mod error;
mod exit;
mod fail_on;
mod goal;
mod input;
mod interrupt;
mod kubectl;
mod now;
mod observe;
mod options;
mod output;
mod page;
mod planner;
mod program;
mod report;
mod resource;
mod serve;
mod stderr;
mod target;
mod variables;
mod watch;

use std::ffi::OsString;
use std::io;
use std::panic;
use std::path::Path;

use clap::{CommandFactory as _, FromArgMatches as _};
use rollplan_text::printable;

pub use self::exit::Exit;

use self::commands::CommandLine;
use self::error::Error;

/// The command of a server. Its errors are written to a log, one per line.
const SERVE: &str = "serve";

/// Runs the command line with the given arguments. The first one is the name of the program.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Exit {
    let args: Vec<OsString> = args.into_iter().collect();
    if program::is_completion(args.first().map(Path::new)) {
        let words = args
            .iter()
            .skip(1)
            .map(|word| word.to_string_lossy().into_owned());
        let words: Vec<String> = words.collect();
        let mut command = CommandLine::command();
        command.build();
        return match guarded(|| commands::complete::run(&command, &words)) {
            Ok(()) => Exit::Done,
            Err(error) => error.exit(),
        };
    }
    let is_serve = args.get(1).is_some_and(|verb| verb == SERVE);
    let command = match parse(args) {
        Ok(CommandLine { command }) => command,
        Err(error) if is_serve && error.use_stderr() => {
            stderr::eprint_line(first_line(&error));
            return Exit::Usage;
        }
        Err(error) => return usage(&error),
    };
    match guarded(|| command.run()) {
        Ok(exit) => exit,
        // The reader of the output has closed it, for example `head`.
        Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
        Err(error) => {
            stderr::eprint_error(&error.texts());
            error.exit()
        }
    }
}

/// The documents of a file as JSON, as the commands read them.
///
/// # Errors
///
/// The message that the commands print for a file that cannot be read.
pub fn documents(bytes: Vec<u8>) -> Result<Vec<String>, String> {
    let message = |error: Error| error.texts().join("\n");
    let sources = [input::Source::new("file", bytes).map_err(message)?];
    let texts = input::Texts::read(&sources).map_err(message)?;
    Ok(texts.documents().map(str::to_owned).collect())
}

fn parse(args: Vec<OsString>) -> Result<CommandLine, clap::Error> {
    program::start(args.first().map(Path::new));
    let mut command = variables::without_empty(CommandLine::command()).bin_name(program::command());
    let mut matches = command.try_get_matches_from_mut(args)?;
    CommandLine::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Help and version are not errors; clap distinguishes them.
fn usage(error: &clap::Error) -> Exit {
    let text = error.render().to_string();
    if error.use_stderr() && printable(&text) != text {
        // Arguments may contain text from a cluster.
        text.lines().for_each(stderr::eprint_line);
    } else {
        // Standard output may be closed.
        let _ = error.print();
    }
    match error.exit_code() {
        0 => Exit::Done,
        _ => Exit::Usage,
    }
}

/// The error message without hints and usage.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.is_empty());
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

/// Reports a panic, which is a bug, as one line without a trace.
fn guarded<T>(run: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map(|location| format!(" at {}:{}", location.file(), location.line()))
            .unwrap_or_default();
        // The message is omitted, because it may contain values of a template.
        stderr::eprint_note(format_args!("panicked{place}"));
    }));
    let result = panic::catch_unwind(panic::AssertUnwindSafe(run));
    panic::set_hook(hook);
    result.unwrap_or_else(|_| Err(Error::Bug("rollplan panicked".to_owned())))
}
