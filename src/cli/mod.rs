//! The command line: Kubernetes objects in, plans and status out.
//!
//! Reads files and the clock, and is the only part that does. Decisions are [`wire`](crate::wire)'s, made here
//! or by a service that is asked.

mod args;
mod ask;
mod error;
mod exit;
mod input;
mod now;
mod output;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::panic;

use clap::{CommandFactory as _, Parser as _};

pub use self::exit::Exit;

use self::args::{AnswerArgs, Command, CommandLine, InputArgs, PlanArgs, ServeArgs, StatusArgs};
use self::ask::Planner;
use self::error::Error;
use self::input::Request;
use crate::proto;
use crate::server;

/// Runs the command line with these arguments, the first being the program's name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Exit {
    let command = match CommandLine::try_parse_from(args) {
        Ok(CommandLine { command }) => command,
        Err(error) => return usage(&error),
    };
    match guarded(|| dispatch(command)) {
        Ok(exit) => exit,
        // Whoever reads the answer has seen enough, as `head` has.
        Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
        Err(error) => {
            complain(format_args!("error: {}", error::chain(&error)));
            error.exit()
        }
    }
}

/// Help and version are no mistakes; clap tells them apart.
fn usage(error: &clap::Error) -> Exit {
    // There is nobody left to tell.
    let _ = error.print();
    match error.exit_code() {
        0 => Exit::Done,
        _ => Exit::Usage,
    }
}

fn dispatch(command: Command) -> Result<Exit, Error> {
    match command {
        Command::Plan(args) => plan(args),
        Command::Status(args) => status(args),
        Command::Serve(args) => serve(args),
        Command::Completions { shell } => completions(shell),
    }
}

fn plan(args: PlanArgs) -> Result<Exit, Error> {
    let PlanArgs {
        input,
        horizon,
        failures,
        answer: AnswerArgs { output, server },
    } = args;
    let planner = Planner::new(server)?;
    let Request {
        subject,
        snapshot,
        places,
    } = read(&input, failures.as_deref())?;
    let request = proto::PlanRolloutRequest {
        snapshot: Some(snapshot),
        options: Some(proto::PlanOptions {
            horizon: proto::Horizon::from(horizon).into(),
            terminating_replicas: None,
        }),
    };
    let response = planner
        .plan_rollout(request)
        .map_err(|refusal| refusal.into_error(&places))?;
    output::print(output, &response, |page| {
        output::plan(page, &subject, &response);
    })?;
    Ok(Exit::Done)
}

fn status(args: StatusArgs) -> Result<Exit, Error> {
    let StatusArgs {
        input,
        answer: AnswerArgs { output, server },
    } = args;
    let planner = Planner::new(server)?;
    let Request {
        subject,
        snapshot,
        places,
    } = read(&input, None)?;
    let request = proto::ComputeStatusRequest {
        snapshot: Some(snapshot),
        options: None,
    };
    let response = planner
        .compute_status(request)
        .map_err(|refusal| refusal.into_error(&places))?;
    output::print(output, &response, |page| {
        output::status(page, &subject, &response);
    })?;
    Ok(Exit::Done)
}

fn read(args: &InputArgs, failures: Option<&std::path::Path>) -> Result<Request, Error> {
    let InputArgs {
        files,
        deployment,
        now,
        pods_complete,
    } = args;
    let sources = input::sources(files)?;
    let failures = failures.map(input::failures).transpose()?;
    let wanted = deployment
        .as_deref()
        .map(input::Wanted::parse)
        .transpose()?;
    input::request(
        &sources,
        wanted.as_ref(),
        *pods_complete,
        now.unwrap_or_else(now::read),
        failures.unwrap_or_default(),
        &mut |note| complain(format_args!("note: {note}")),
    )
}

fn serve(args: ServeArgs) -> Result<Exit, Error> {
    server::run(args.into())?;
    Ok(Exit::Done)
}

fn completions(shell: clap_complete::Shell) -> Result<Exit, Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CommandLine::command(), "rollplan", &mut script);
    output::write(&script)?;
    Ok(Exit::Done)
}

/// A line on standard error. If that is closed, there is nobody left to tell.
fn complain(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A panic is a bug, and is told as one line instead of a trace.
fn guarded<T>(run: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map(|location| format!(" at {}:{}", location.file(), location.line()))
            .unwrap_or_default();
        // Without the message: it may hold values of a template.
        complain(format_args!("note: panicked{place}"));
    }));
    let result = panic::catch_unwind(panic::AssertUnwindSafe(run));
    panic::set_hook(hook);
    result.unwrap_or_else(|_| Err(Error::Bug("rollplan panicked".to_owned())))
}
