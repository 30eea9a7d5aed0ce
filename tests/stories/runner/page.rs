//! Markdown files with stories.

/// A part of a story: a fenced block.
#[derive(Clone, Debug)]
pub(super) enum Block {
    /// Lines in the language of states.
    State(Lines),
    /// Objects of the state, as YAML.
    Objects(Lines),
    /// The content of a file.
    File { path: String, lines: Lines },
    /// Commands with their output.
    Console(Vec<Command>),
}

/// Lines of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    /// The number of the first line, starting at 1.
    pub(super) first: usize,
    pub(super) text: String,
}

/// A command, and what it is expected to print.
#[derive(Clone, Debug)]
pub(super) struct Command {
    /// The number of its line, starting at 1.
    pub(super) line: usize,
    /// The arguments after `rollplan`.
    pub(super) args: String,
    pub(super) expected: Vec<String>,
}

/// Cases: the cells replace `{HEADER}` in the blocks.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) names: Vec<String>,
    /// The number of the line and the cells of each row.
    pub(super) rows: Vec<(usize, Vec<String>)>,
}

/// A section of a file.
#[derive(Clone, Debug)]
pub(super) struct Story {
    pub(super) line: usize,
    pub(super) title: String,
    pub(super) blocks: Vec<Block>,
    pub(super) table: Option<Table>,
}

const FENCE: &str = "```";
const PROMPT: &str = "$ rollplan ";

/// The stories of a file. Blocks above the first story are part of each story.
pub(super) fn stories(text: &str) -> Result<Vec<Story>, String> {
    let mut common = Vec::new();
    let mut stories: Vec<Story> = Vec::new();
    let mut lines = text.lines().zip(1..).peekable();
    while let Some((line, number)) = lines.next() {
        let story = stories.last_mut();
        if let Some(title) = line.strip_prefix("## ") {
            stories.push(Story {
                line: number,
                title: title.to_owned(),
                blocks: common.clone(),
                table: None,
            });
        } else if let Some(kind) = line.strip_prefix(FENCE) {
            let mut inside = Vec::new();
            loop {
                match lines.next() {
                    Some((FENCE, _)) => break,
                    Some((line, _)) => inside.push(line),
                    None => return Err(format!("{number}: the block does not end")),
                }
            }
            let block = block(kind, number + 1, &inside);
            let block = block.map_err(|error| format!("{number}: {error}"))?;
            story.map_or(&mut common, |it| &mut it.blocks).push(block);
        } else if line.starts_with("| ") {
            let story = story.ok_or_else(|| format!("{number}: a table above all stories"))?;
            let names = cells(line);
            let mut rows = Vec::new();
            while let Some((line, number)) = lines.next_if(|(line, _)| line.starts_with('|')) {
                rows.push((number, cells(line)));
            }
            let rows = rows.split_off(1.min(rows.len()));
            if let Some((number, _)) = rows.iter().find(|(_, row)| row.len() != names.len()) {
                return Err(format!("{number}: a row needs {} cells", names.len()));
            }
            if story.table.replace(Table { names, rows }).is_some() {
                return Err(format!("{number}: a second table"));
            }
        }
    }
    for story in &stories {
        story
            .check()
            .map_err(|error| format!("{}: {error}", story.line))?;
    }
    if stories.is_empty() {
        Err("1: no story".to_owned())
    } else {
        Ok(stories)
    }
}

fn block(kind: &str, first: usize, lines: &[&str]) -> Result<Block, String> {
    let whole = || Lines {
        first,
        text: lines.join("\n") + "\n",
    };
    match kind.split_whitespace().collect::<Vec<_>>()[..] {
        ["state"] => Ok(Block::State(whole())),
        ["yaml"] => Ok(Block::Objects(whole())),
        ["yaml" | "json" | "text", path] => Ok(Block::File {
            path: path.to_owned(),
            lines: whole(),
        }),
        ["console"] => {
            let mut commands: Vec<Command> = Vec::new();
            for (line, text) in (first..).zip(lines) {
                match (text.strip_prefix(PROMPT), commands.last_mut()) {
                    (Some(args), _) => commands.push(Command {
                        line,
                        args: args.to_owned(),
                        expected: Vec::new(),
                    }),
                    (None, Some(command)) => command.expected.push((*text).to_owned()),
                    (None, None) => return Err(format!("a console starts with `{PROMPT}`")),
                }
            }
            Ok(Block::Console(commands))
        }
        _ => Err(format!("unknown block {kind:?}")),
    }
}

/// The cells of a row, without the backquotes around each.
fn cells(line: &str) -> Vec<String> {
    let line = line.replace("\\|", "\0");
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    let cell = |cell: &str| {
        let cell = cell.trim();
        let code = cell.strip_prefix('`').and_then(|it| it.strip_suffix('`'));
        code.unwrap_or(cell).replace('\0', "|")
    };
    inner.split('|').map(cell).collect()
}

/// A row of a table, with the cells as code.
pub(super) fn row(cells: &[String]) -> String {
    let cell = |cell: &String| match cell.as_str() {
        "" => " |".to_owned(),
        cell => format!(" `{}` |", cell.replace('|', "\\|")),
    };
    format!("|{}", cells.iter().map(cell).collect::<String>())
}

/// Removes what is expected.
pub(super) fn forget(blocks: &mut [Block]) {
    for block in blocks {
        if let Block::Console(commands) = block {
            commands
                .iter_mut()
                .for_each(|command| command.expected.clear());
        }
    }
}

// === impl Story ===

impl Story {
    fn check(&self) -> Result<(), String> {
        let commands = self.commands().count();
        if commands == 0 {
            return Err("the story checks nothing".to_owned());
        }
        let Some(table) = &self.table else {
            return Ok(());
        };
        if table.rows.is_empty() {
            return Err("the table has no rows".to_owned());
        }
        let texts = || {
            self.inputs()
                .chain(self.commands().flat_map(|it| &it.expected))
        };
        for name in &table.names {
            let place = format!("{{{name}}}");
            if !texts().any(|text| text.contains(&place)) {
                return Err(format!("{place} is not in the story"));
            }
        }
        Ok(())
    }

    pub(super) fn commands(&self) -> impl Iterator<Item = &Command> {
        let consoles = self.blocks.iter().filter_map(|block| match block {
            Block::Console(commands) => Some(commands),
            _ => None,
        });
        consoles.flatten()
    }

    /// Everything that is not output.
    fn inputs(&self) -> impl Iterator<Item = &String> {
        let blocks = self.blocks.iter().filter_map(|block| match block {
            Block::State(lines) | Block::Objects(lines) | Block::File { lines, .. } => {
                Some(&lines.text)
            }
            Block::Console(_) => None,
        });
        blocks.chain(self.commands().map(|command| &command.args))
    }

    /// Whether the column of the table is only in the output.
    pub(super) fn is_answer(&self, name: &str) -> bool {
        let place = format!("{{{name}}}");
        !self.inputs().any(|text| text.contains(&place))
    }

    /// The blocks with the cells of a row.
    pub(super) fn with(&self, names: &[String], cells: &[String]) -> Vec<Block> {
        let fill = |text: &str| {
            let mut text = text.to_owned();
            for (name, cell) in names.iter().zip(cells) {
                text = text.replace(&format!("{{{name}}}"), cell);
            }
            text
        };
        let lines = |lines: &Lines| Lines {
            first: lines.first,
            text: fill(&lines.text),
        };
        let blocks = self.blocks.iter().map(|block| match block {
            Block::State(it) => Block::State(lines(it)),
            Block::Objects(it) => Block::Objects(lines(it)),
            Block::File { path, lines: it } => Block::File {
                path: path.clone(),
                lines: lines(it),
            },
            Block::Console(commands) => {
                let is_empty = |line: &&String| {
                    let mut cells = names.iter().zip(cells);
                    let places = cells
                        .by_ref()
                        .filter(|(name, _)| line.contains(&format!("{{{name}}}")));
                    let cells: Vec<&String> = places.map(|(_, cell)| cell).collect();
                    !cells.is_empty() && cells.iter().all(|cell| cell.is_empty())
                };
                let command = |it: &Command| Command {
                    line: it.line,
                    args: fill(&it.args),
                    expected: it
                        .expected
                        .iter()
                        .filter(|line| !is_empty(line))
                        .map(|line| fill(line))
                        .collect(),
                };
                Block::Console(commands.iter().map(command).collect())
            }
        });
        blocks.collect()
    }
}
