//! The objects that a rollout has created, one line for each object or group of equal pods.

use rollplan_core::time::Span;
use rollplan_text::{Style, fit, one_line, width};

use super::{Glyphs, Line, line_width, plain};
use crate::cli::input::{Health, Node, Place};

/// The minimum number of equal pods that are shown as a group.
const GROUP_MIN: usize = 3;

/// The number of digits of a digest that identify an image.
const DIGITS: usize = 12;

/// How to show nodes.
#[derive(Clone, Copy)]
pub(in crate::cli::watch::view) struct Outline<'g> {
    pub(in crate::cli::watch::view) glyphs: &'g Glyphs,
    /// The current time, in seconds since 1970.
    pub(in crate::cli::watch::view) now: i64,
    /// The width of the terminal, if any.
    pub(in crate::cli::watch::view) columns: Option<usize>,
    /// Whether equal pods are grouped.
    pub(in crate::cli::watch::view) groups: bool,
}

// === impl Outline ===

impl Outline<'_> {
    pub(in crate::cli::watch::view) fn lines(&self, nodes: &[Node]) -> Vec<Line> {
        let mut lines = Vec::new();
        self.add(nodes, "", &mut lines);
        lines
    }

    fn add(&self, nodes: &[Node], indent: &str, lines: &mut Vec<Line>) {
        let groups = self.grouped(nodes);
        for (index, group) in groups.iter().enumerate() {
            let (branch, down) = if index + 1 == groups.len() {
                (self.glyphs.last, "   ")
            } else {
                (self.glyphs.branch, self.glyphs.down)
            };
            let begin = (format!("{indent}{branch}"), Style::Faint);
            match group.as_slice() {
                [node] => {
                    lines.push(self.line(begin, node));
                    self.add(&node.children, &format!("{indent}{down}"), lines);
                }
                nodes => lines.push(self.group(begin, nodes)),
            }
        }
    }

    /// Equal pods, in the order of the first of each group.
    fn grouped<'n>(&self, nodes: &'n [Node]) -> Vec<Vec<&'n Node>> {
        let mut groups: Vec<Vec<&Node>> = Vec::new();
        for node in nodes {
            let group = groups.iter_mut().find(|it| is_equal(it[0], node));
            match group.filter(|_| self.groups) {
                Some(group) => group.push(node),
                None => groups.push(vec![node]),
            }
        }
        let groups = groups.into_iter().flat_map(|group| match group.len() {
            GROUP_MIN.. => vec![group],
            _ => group.into_iter().map(|node| vec![node]).collect(),
        });
        groups.collect()
    }

    fn line(&self, begin: (String, Style), node: &Node) -> Line {
        let mut line = vec![begin, plain(&one_line(&node.label)), plain("  ")];
        line.push((one_line(&node.state), style(node.health)));
        line.push(plain(&restarts(node.restarts, node.restarts)));
        line.extend(self.age(&[node]));
        match &node.place {
            Place::Node(node) if node.is_empty() => {}
            Place::Node(node) => line.push(faint(&format!("  on {}", one_line(node)))),
            Place::Images(images) if images.is_empty() => {}
            Place::Images(images) => {
                let used = line_width(&line) + 2;
                let room = self.columns.map(|columns| columns.saturating_sub(used));
                let images = images.iter().map(|image| one_line(image));
                let images = fitted(&images.collect::<Vec<_>>(), room, self.glyphs.more);
                line.push(plain(&format!("  {images}")));
            }
        }
        line
    }

    /// For example "20 × Running, not ready  5s to 2m  on 3 nodes  web-7d9-abcde, …".
    fn group(&self, begin: (String, Style), nodes: &[&Node]) -> Line {
        let first = nodes[0];
        let counts = || nodes.iter().map(|node| node.restarts);
        let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
        let Glyphs { times, more, .. } = self.glyphs;
        let mut line = vec![begin, plain(&format!("{} {times} ", nodes.len()))];
        line.push((one_line(&first.state), style(first.health)));
        line.push(plain(&restarts(least, most)));
        line.extend(self.age(nodes));
        let mut hosts: Vec<&str> = nodes.iter().filter_map(|node| host(node)).collect();
        hosts.sort_unstable();
        hosts.dedup();
        match hosts.as_slice() {
            [] => {}
            [host] => line.push(faint(&format!("  on {}", one_line(host)))),
            hosts => line.push(faint(&format!("  on {} nodes", hosts.len()))),
        }
        let example = format!("  {}, {more}", one_line(&first.label));
        let columns = self.columns.unwrap_or(usize::MAX);
        if line_width(&line) + width(&example) <= columns {
            line.push(faint(&example));
        }
        line
    }

    /// The ages of nodes, for example "5s to 2m".
    fn age(&self, nodes: &[&Node]) -> Option<(String, Style)> {
        let created = || nodes.iter().filter_map(|node| node.created);
        let age = |created: i64| Span::from_seconds(self.now.saturating_sub(created)).to_string();
        let (youngest, oldest) = (age(created().max()?), age(created().min()?));
        Some(faint(&if youngest == oldest {
            format!("  {oldest}")
        } else {
            format!("  {youngest} to {oldest}")
        }))
    }
}

fn faint(text: &str) -> (String, Style) {
    (text.to_owned(), Style::Faint)
}

fn style(health: Health) -> Style {
    match health {
        Health::Failing => Style::Bad,
        Health::Waiting => Style::Warn,
        Health::Ending => Style::Faint,
        Health::Ready => Style::Good,
    }
}

/// Whether two pods are in the same state.
fn is_equal(a: &Node, b: &Node) -> bool {
    let is_pod = |node: &Node| matches!(node.place, Place::Node(_));
    is_pod(a) && is_pod(b) && (&a.state, a.health) == (&b.state, b.health)
}

fn host(node: &Node) -> Option<&str> {
    match &node.place {
        Place::Node(node) => Some(node.as_str()).filter(|node| !node.is_empty()),
        Place::Images(_) => None,
    }
}

fn restarts(least: i64, most: i64) -> String {
    match (least, most) {
        (_, 0) => String::new(),
        (1, 1) => ", 1 restart".to_owned(),
        (least, most) if least == most => format!(", {most} restarts"),
        (least, most) => format!(", {least} to {most} restarts"),
    }
}

/// Images that fit into a line: those that do not are shortened at both ends, because a tag tells revisions apart.
fn fitted(images: &[String], room: Option<usize>, more: &str) -> String {
    let all = images.join(", ");
    let Some(room) = room.filter(|room| width(&all) > *room) else {
        return all;
    };
    let short = images.iter().map(|image| short(image, more));
    fit(&short.collect::<Vec<_>>().join(", "), room, more)
}

/// An image without its registry and path, and with the first digits of its digest.
fn short(image: &str, more: &str) -> String {
    let (name, digest) = match image.split_once("@sha256:") {
        Some((name, digest)) => (name, digest.get(..DIGITS)),
        None => (image, None),
    };
    let name = match name.rsplit_once('/') {
        Some((_, name)) => format!("{more}/{name}"),
        None => name.to_owned(),
    };
    match digest {
        Some(digest) => format!("{name}@{digest}"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::super::bars::UNICODE;
    use super::*;

    fn pod(name: &str, state: &str, created: i64, node: &str) -> Node {
        Node {
            label: name.to_owned(),
            state: state.to_owned(),
            health: Health::Waiting,
            restarts: created / 100,
            created: Some(created),
            place: Place::Node(node.to_owned()),
            children: Vec::new(),
        }
    }

    fn set(name: &str, children: Vec<Node>) -> Node {
        Node {
            label: format!("ReplicaSet {name}"),
            state: "revision 2".to_owned(),
            health: Health::Failing,
            restarts: 0,
            created: None,
            place: Place::Images(vec!["registry.example/team/web:2".to_owned()]),
            children,
        }
    }

    fn shown(nodes: &[Node], columns: Option<usize>, groups: bool) -> Vec<String> {
        let outline = Outline {
            glyphs: &UNICODE,
            now: 1000,
            columns,
            groups,
        };
        let text = |line: Line| line.into_iter().map(|(text, _)| text).collect();
        outline.lines(nodes).into_iter().map(text).collect()
    }

    #[test]
    fn equal_pods_are_grouped() {
        let nodes = [
            set(
                "a",
                vec![
                    pod("p0", "Pending", 0, ""),
                    pod("p1", "Running", 400, "n1"),
                    pod("p2", "Running", 300, "n1"),
                    pod("p3", "Running", 940, "n2"),
                ],
            ),
            set(
                "b",
                vec![
                    pod("q0", "Running", 900, "n1"),
                    pod("q1", "Running", 900, "n1"),
                ],
            ),
        ];
        assert_eq!(
            shown(&nodes, None, true),
            [
                "├─ ReplicaSet a  revision 2  registry.example/team/web:2",
                "│  ├─ p0  Pending  16m40s",
                "│  └─ 3 × Running, 3 to 9 restarts  1m to 11m40s  on 2 nodes  p1, …",
                "└─ ReplicaSet b  revision 2  registry.example/team/web:2",
                "   ├─ q0  Running, 9 restarts  1m40s  on n1",
                "   └─ q1  Running, 9 restarts  1m40s  on n1",
            ]
        );
        assert_eq!(shown(&nodes, None, false).len(), 8);
    }

    #[test]
    fn tag_of_a_long_image_is_shown() {
        let line = |columns| shown(&[set("a", Vec::new())], Some(columns), true).remove(0);
        assert_eq!(
            line(56),
            "└─ ReplicaSet a  revision 2  registry.example/team/web:2"
        );
        assert_eq!(line(55), "└─ ReplicaSet a  revision 2  …/web:2");
        let digest = format!("r/web@sha256:{}", "0123456789".repeat(6));
        assert_eq!(short(&digest, "…"), "…/web@012345678901");
    }
}
