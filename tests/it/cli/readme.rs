//! What the README shows is what its commands print.

use super::{read, rollplan};

/// Each ```` ```console ```` block of the README: its command, and the excerpt below it.
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
fn readme_shows_what_its_commands_print() {
    let consoles = consoles(&read("README.md"));
    assert_eq!(consoles.len(), 2);
    for (command, excerpt) in consoles {
        let args: Vec<&str> = command.split_whitespace().collect();
        let run = rollplan(&args, "");
        assert_eq!(run.err, "", "{command}");
        let mut printed = run.out.as_str();
        // An ellipsis leaves lines out; what stands between two of them is printed as it is.
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
