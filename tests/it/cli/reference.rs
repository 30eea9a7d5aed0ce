//! The reference pages of the command line have its options and exit codes, as its help prints them.

use rollplan_world::page::{check, table};

use super::rollplan;

const COMMANDS: [&str; 16] = [
    "status",
    "wait",
    "forecast",
    "canary start",
    "canary status",
    "canary promote",
    "canary abort",
    "canary retry",
    "canary release",
    "canary guard",
    "history",
    "undo",
    "plan",
    "restarts",
    "uses",
    "completions",
];

/// Where the text of an option begins.
const INDENT: &str = "          ";

fn help(command: &str) -> String {
    let args: Vec<&str> = command.split(' ').chain(["--help"]).collect();
    rollplan(&args, "").out
}

/// A text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
        .replace('*', "\\*")
        .replace('<', "\\<")
}

/// The options in a help, each with its lines.
fn options(help: &str) -> Vec<(String, Vec<String>)> {
    let mut options: Vec<(String, Vec<String>)> = Vec::new();
    let (_, lines) = help.split_once("\nOptions:\n").expect("options");
    // A text after the options begins without a blank.
    for line in lines
        .lines()
        .take_while(|line| line.is_empty() || line.starts_with(' '))
    {
        if let Some(text) = line.strip_prefix(INDENT) {
            let (_, texts) = options.last_mut().expect("an option");
            texts.push(text.split_whitespace().collect::<Vec<_>>().join(" "));
        } else if !line.is_empty() {
            options.push((line.trim().to_owned(), Vec::new()));
        } else if let Some((_, texts)) = options.last_mut() {
            texts.push(String::new());
        }
    }
    options
}

/// The lines of an option as one text.
fn text(lines: &[String]) -> String {
    let mut text = String::new();
    let mut is_new = false;
    for line in lines {
        if line.is_empty() {
            is_new = true;
            continue;
        }
        if let Some(value) = line.strip_prefix("- ") {
            text += if text.ends_with(':') { " " } else { "; " };
            text += value;
        } else {
            // The first paragraph of a help has no full stop.
            if is_new && !text.ends_with(['.', ':']) && !line.starts_with('[') {
                text.push('.');
            }
            if !text.is_empty() {
                text.push(' ');
            }
            text += line;
        }
        is_new = false;
    }
    text
}

/// A text without what it has in brackets, for example `default`, and that.
fn bracketed(text: &str, name: &str) -> (String, Option<String>) {
    let Some((before, rest)) = text.split_once(&format!("[{name}: ")) else {
        return (text.to_owned(), None);
    };
    let (value, after) = rest.split_once(']').expect("a bracket");
    let before = before.trim();
    let text = match after.trim() {
        // The end of the sentence.
        after if after.starts_with('.') => format!("{before}{after}"),
        after => format!("{before} {after}"),
    };
    (text.trim().to_owned(), Some(value.to_owned()))
}

/// The table of a command. `-h` is the same for all.
fn table_of(command: &str) -> String {
    let options = options(&help(command)).into_iter();
    let rows = options
        .filter(|(option, _)| option != "-h, --help")
        .map(|(option, lines)| {
            vec![
                format!("`{}`", option.replace('|', "\\|")),
                cell(&text(&lines)),
            ]
        });
    table(&["option", "meaning"], rows)
}

#[test]
fn options_are_those_of_the_help() {
    let tables =
        COMMANDS.map(|command| format!("## rollplan {command}\n\n{}\n", table_of(command)));
    check("docs/reference/options.md", "options", &tables.concat());
}

#[test]
fn exit_codes_are_those_of_the_help() {
    let rows = COMMANDS.iter().filter_map(|command| {
        let help = help(command);
        let (_, text) = help.split_once("\nExit codes: ")?;
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // The canary commands have the same text.
        let name = command.split(' ').next().expect("a name");
        Some(vec![format!("`{name}`"), cell(text.trim_end_matches('.'))])
    });
    let mut rows: Vec<_> = rows.collect();
    rows.dedup();
    check(
        "docs/reference/command.md",
        "exit codes",
        &table(&["command", "exit codes"], rows),
    );
}

#[test]
fn settings_are_those_of_the_help() {
    let rows = options(&help("serve"))
        .into_iter()
        .filter_map(|(option, lines)| {
            let (text, variable) = bracketed(&text(&lines), "env");
            let (text, default) = bracketed(&text, "default");
            let option = option.split(' ').next().expect("a name");
            let variable = variable?.trim_end_matches('=').to_owned();
            let default = match default.as_deref() {
                None | Some("none" | "never" | "unlimited") => "none".to_owned(),
                Some(default) => format!("`{default}`"),
            };
            Some(vec![
                format!("`{option}`"),
                format!("`{variable}`"),
                default,
                cell(&text),
            ])
        });
    let table = table(&["option", "variable", "default", "what it does"], rows);
    check("docs/reference/service.md", "settings", &table);
}
