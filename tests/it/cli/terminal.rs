//! Output on a terminal: colors, widths, and the live view, which is redrawn in place.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::kubectl::{Answer, DOWN, Kubectl, Poll, example, failing, rollout};

/// Marks a frame of the live view as complete.
const FRAME: &str = "?2026l";

/// The output of a program on a terminal.
struct Shown {
    exit: i32,
    output: String,
    /// What the terminal shows after each frame of the live view, and at the end.
    screens: Vec<String>,
}

/// What a terminal shows. It knows the escape codes that the program uses.
struct Screen {
    columns: usize,
    rows: Vec<Vec<char>>,
    row: usize,
    column: usize,
    wraps: bool,
}

impl Shown {
    fn last(&self) -> &str {
        self.screens.last().unwrap()
    }

    /// The number of frames of the live view.
    fn frames(&self) -> usize {
        self.screens.len() - 1
    }
}

impl Screen {
    /// The screen after each frame, and at the end.
    fn after_each_frame(output: &str, columns: usize) -> Vec<String> {
        let mut screen = Self {
            columns,
            rows: vec![Vec::new()],
            row: 0,
            column: 0,
            wraps: true,
        };
        let mut screens = Vec::new();
        let mut rest = output;
        while let Some(char) = rest.chars().next() {
            rest = &rest[char.len_utf8()..];
            match char {
                '\u{1b}' => {
                    let end = rest.find(|char: char| char.is_ascii_alphabetic()).unwrap();
                    let (code, after) = rest.split_at(end + 1);
                    screen.escape(code.strip_prefix('[').unwrap());
                    if code.ends_with(FRAME) {
                        screens.push(screen.text());
                    }
                    rest = after;
                }
                '\n' => screen.down(),
                '\r' => screen.column = 0,
                char => screen.put(char),
            }
        }
        screens.push(screen.text());
        screens
    }

    fn escape(&mut self, code: &str) {
        match code.split_at(code.len() - 1) {
            (rows, "A") => self.row -= rows.parse::<usize>().unwrap(),
            ("", "J") => {
                self.rows.truncate(self.row + 1);
                self.rows[self.row].truncate(self.column);
            }
            ("0", "K") => self.rows[self.row].truncate(self.column),
            ("?7", wraps) => self.wraps = wraps == "h",
            ("?2026", _) | (_, "m") => {}
            _ => panic!("an unknown code: {code:?}"),
        }
    }

    fn down(&mut self) {
        self.row += 1;
        if self.row == self.rows.len() {
            self.rows.push(Vec::new());
        }
    }

    fn put(&mut self, char: char) {
        if self.column == self.columns {
            if self.wraps {
                self.down();
                self.column = 0;
            } else {
                self.column -= 1;
            }
        }
        let row = &mut self.rows[self.row];
        row.resize(row.len().max(self.column + 1), ' ');
        row[self.column] = char;
        self.column += 1;
    }

    fn text(&self) -> String {
        let rows = self.rows.iter().map(|row| row.iter().collect::<String>());
        rows.collect::<Vec<_>>().join("\n")
    }
}

/// Runs a command on a terminal with this number of columns, and returns when it ends.
fn on_terminal(mut command: Command, columns: u16) -> Shown {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let size = Winsize {
        ws_row: 40,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&terminal, size).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let name = std::ffi::OsStr::from_bytes(name.as_bytes());
    let side = OpenOptions::new().write(true).open(name).unwrap();
    command
        .stdin(Stdio::null())
        .stdout(side.try_clone().unwrap())
        .stderr(side);
    let mut child = command.spawn().unwrap();
    // The terminal ends when only this process has it open.
    drop(command);
    let mut output = Vec::new();
    let mut terminal = std::fs::File::from(terminal);
    let mut part = [0; 4096];
    while let Ok(read @ 1..) = terminal.read(&mut part) {
        output.extend(&part[..read]);
    }
    let output = String::from_utf8(output).unwrap();
    Shown {
        exit: child.wait().unwrap().code().unwrap(),
        screens: Screen::after_each_frame(&output, columns.into()),
        output,
    }
}

/// Runs the program with these polls on a terminal of 60 columns.
fn shown_with(polls: &[Poll], args: &[&str], env: &[(&str, &str)]) -> Shown {
    let kubectl = Kubectl::new(polls);
    let mut command = kubectl.command(args);
    // Some CI systems set these.
    command
        .env_remove("NO_COLOR")
        .env("TERM", "xterm")
        .env("LC_ALL", "C")
        .envs(env.iter().copied());
    on_terminal(command, 60)
}

fn shown(polls: &[Poll], args: &[&str]) -> Shown {
    let args = [args, &["--interval=0", "--timeout=2m"]].concat();
    shown_with(polls, &args, &[])
}

/// The number of columns of the longest line.
fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap()
}

#[test]
fn live_view_is_redrawn_in_place() {
    for args in [&["wait", "web"][..], &["status", "web", "--watch"]] {
        let shown = shown(&[rollout(0), rollout(1), rollout(2)], args);
        assert_eq!(shown.exit, 0, "{}", shown.last());
        // One for each poll, and the last one.
        assert_eq!(shown.frames(), 4);
        let states = ["progressing", "progressing", "complete", "complete"];
        for (screen, state) in shown.screens.iter().zip(states) {
            let head = format!("Deployment shop/web  {state}  ");
            assert!(screen.starts_with(&head), "{screen}");
            assert_eq!(screen.matches("shop/web").count(), 1, "{screen}");
            assert!(widest(screen) <= 60, "{screen}");
        }
        let second = &shown.screens[1];
        assert!(second.contains("##########.......... 1 of 2"), "{second}");
        assert!(shown.last().contains("ReplicaSet"), "{}", shown.last());
    }
}

#[test]
fn live_view_counts_the_time_between_polls() {
    let args = ["wait", "web", "--interval=1500ms", "--timeout=2m"];
    let shown = shown_with(&[rollout(0), rollout(2)], &args, &[]);
    assert_eq!(shown.frames(), 4, "{}", shown.output);
    let second = &shown.screens[1];
    assert!(!second.contains("progressing  0s"), "{second}");
}

#[test]
fn notes_are_printed_above_the_live_view() {
    let polls = [rollout(0), failing(DOWN), rollout(2)];
    let shown = shown(&polls, &["wait", "web"]);
    assert_eq!(shown.exit, 0, "{}", shown.last());
    let screen = shown.last();
    let (note, view) = screen.split_once("Deployment shop/web").unwrap();
    assert!(note.starts_with("note: poll failed: "), "{screen}");
    assert!(view.starts_with("  complete"), "{screen}");
    assert_eq!(screen.matches("Deployment shop/web").count(), 1, "{screen}");
}

/// The last frame does not contain them.
#[test]
fn causes_are_printed_once_below_the_live_view() {
    let shown = shown(&[example("stuck-bad-image")], &["wait", "web"]);
    assert_eq!(shown.exit, 1, "{}", shown.last());
    let words: Vec<_> = shown.last().split_whitespace().collect();
    let screen = words.join(" ");
    assert_eq!(screen.matches("cannot be pulled").count(), 1, "{screen}");
    assert!(
        screen.contains("remedy: read the events of the pod"),
        "{screen}"
    );
}

#[test]
fn lines_are_printed_without_a_live_view() {
    for (args, env) in [
        (&["wait", "web", "--no-live"][..], ("TERM", "xterm")),
        (&["wait", "web", "--ci=gitlab"], ("TERM", "xterm")),
        (&["wait", "web", "-o", "json"], ("TERM", "xterm")),
        (&["wait", "web"], ("TERM", "dumb")),
        (&["status", "web", "-w", "--no-live"], ("TERM", "xterm")),
        (&["status", "web", "-w", "--ci=gitlab"], ("TERM", "xterm")),
    ] {
        let args = [args, &["--interval=0", "--timeout=2m"]].concat();
        let shown = shown_with(&[rollout(0), rollout(2)], &args, &[env]);
        assert_eq!((shown.exit, shown.frames()), (0, 0), "{args:?}");
    }
}

/// See no-color.org.
#[test]
fn colors_need_a_capable_terminal() {
    for (env, is_coloured) in [
        (&[][..], true),
        (&[("NO_COLOR", "")], true),
        (&[("NO_COLOR", "1")], false),
        (&[("TERM", "dumb")], false),
    ] {
        for args in [&["status", "web"][..], &["wait", "web"]] {
            let shown = shown_with(&[example("stuck-bad-image")], args, env);
            assert_eq!(shown.exit, 1, "{}", shown.last());
            let has_codes = shown.output.contains("\u{1b}[31m");
            assert_eq!(has_codes, is_coloured, "{args:?} {env:?}");
        }
    }
}

#[test]
fn texts_are_wrapped_at_the_width_of_the_terminal() {
    let args = ["status", "web", "--now", super::NOW];
    let shown = shown_with(&[example("stuck-bad-image")], &args, &[("NO_COLOR", "1")]);
    let text = shown.output.replace('\r', "");
    assert!((51..=60).contains(&widest(&text)), "{text}");
}

/// 80 columns, with a cause that is longer than a line.
#[test]
fn live_view_shows_causes_and_remedies_in_full() {
    let mut waiting = example("stuck-crash-loop");
    let Answer::Out(text) = &mut waiting.deployment else {
        panic!("not printed");
    };
    let mut deployment: serde_json::Value = serde_json::from_str(text).unwrap();
    deployment["spec"]["progressDeadlineSeconds"] = 1_000_000_000.into();
    deployment["status"]["conditions"] = serde_json::json!([]);
    *text = deployment.to_string();
    let args = [
        "wait",
        "web",
        "--interval=0",
        "--timeout=2m",
        "--fail-on=crash-loop=99",
    ];
    let kubectl = Kubectl::new(&[waiting, rollout(2)]);
    let mut command = kubectl.command(&args);
    command
        .env("TERM", "xterm")
        .env("LC_ALL", "C.UTF-8")
        .env("NO_COLOR", "1");
    let shown = on_terminal(command, 80);
    let words: Vec<_> = shown.screens[0].split_whitespace().collect();
    let screen = words.join(" ");
    for part in [
        "container web keeps crashing (2 restarts; 2 of 2 new pods:",
        "Error, exit code 1: fatal: no database at db.shop:5432: connection refused",
        "remedy: read its log: kubectl logs web-757c798d4-",
        "└─ 3 × Running, ready ",
        "on node-0",
        "…/web:1.0",
    ] {
        assert!(screen.contains(part), "{part}: {}", shown.screens[0]);
    }
}

#[test]
fn pages_are_ascii_without_utf_8() {
    let args = ["status", "web", "--now", super::NOW];
    let shown = shown_with(&[example("mid-rollout")], &args, &[("NO_COLOR", "1")]);
    assert!(shown.output.is_ascii(), "{}", shown.output);
    assert!(shown.output.contains("10 - 25%"), "{}", shown.output);
}

/// Logs and `grep` get the whole cause.
#[test]
fn lines_are_wrapped_only_on_a_terminal() {
    let args = ["status", "-f", "examples/stuck-crash-loop.json"];
    let args = [&args[..], &["--now", "2026-11-21T00:51:31Z"]].concat();
    let cause = "keeps crashing (2 restarts; 2 of 2 new pods: web-757c798d4-68fqp CrashLoopBackOff for 2s): \
                 Error, exit code 1: fatal: no database at db.shop:5432: connection refused\n";
    let printed = |columns: Option<&str>| {
        let mut command = super::command(&args);
        match columns {
            Some(columns) => command.env("COLUMNS", columns),
            None => command.env_remove("COLUMNS"),
        };
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    for not_set in [None, Some(""), Some("0"), Some("wide")] {
        let text = printed(not_set);
        assert!(text.contains(cause), "{not_set:?}: {text}");
    }
    for columns in [100, 60] {
        let text = printed(Some(&columns.to_string()));
        let (causes, _) = text.split_once("\n\n").unwrap();
        let width = causes.lines().map(|line| line.chars().count()).max();
        assert!(width <= Some(columns), "{columns}: {text}");
        assert!(!text.contains(cause), "{columns}: {text}");
    }
    // The minimum of the layout.
    assert_eq!(printed(Some("1")), printed(Some("40")));
}
