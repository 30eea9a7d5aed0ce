//! The output in the README matches that of its commands.

use super::{read, rollplan};

/// The ```` ```console ```` blocks of the README: the command of each, and the excerpt of its output.
fn consoles(readme: &str) -> Vec<(String, Vec<String>)> {
    readme
        .split("```console\n$ cargo run --quiet -- ")
        .skip(1)
        .map(|block| {
            let block = block.split("\n```").next().expect("a block ends");
            let mut lines = block.lines().map(str::to_owned);
            (lines.next().expect("a command"), lines.collect())
        })
        .collect()
}

#[test]
fn readme_matches_the_output_of_its_commands() {
    let consoles = consoles(&read("README.md"));
    assert_eq!(consoles.len(), 2);
    for (command, excerpt) in consoles {
        let args: Vec<&str> = command.split_whitespace().collect();
        let run = rollplan(&args, "");
        assert_eq!(run.err, "", "{command}");
        let mut printed = run.out.as_str();
        // An ellipsis replaces omitted lines. The parts between ellipses must match exactly.
        for part in excerpt
            .split(|line| line == "…")
            .map(|part| part.join("\n"))
        {
            let (_, rest) = printed
                .split_once(&part)
                .unwrap_or_else(|| panic!("{command} does not print:\n{part}\nbut:\n{}", run.out));
            printed = rest;
        }
    }
}
