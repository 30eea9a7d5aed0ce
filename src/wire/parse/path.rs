//! Paths in a request. They are formatted only for a violation.

use std::fmt;

use crate::origin::Origin;

/// The path to a field, in the names of the contract.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path<'a> {
    /// A field of the request.
    Root(&'static str),
    /// A field of a message.
    Field(&'a Path<'a>, &'static str),
    /// An item of a list.
    Index(&'a Path<'a>, usize),
    /// An entry of a map.
    Key(&'a Path<'a>, &'a str),
    /// An object in JSON texts. The names below it are those of Kubernetes.
    Object(&'a Origin),
    /// The text of a path below another.
    Text(&'a Path<'a>, &'a str),
}

impl Path<'_> {
    pub(crate) fn field(&self, name: &'static str) -> Path<'_> {
        Path::Field(self, name)
    }

    pub(crate) fn index(&self, index: usize) -> Path<'_> {
        Path::Index(self, index)
    }

    /// The origin of the object in JSON texts that contains this path.
    pub(super) fn origin(&self) -> Option<&Origin> {
        match self {
            Self::Root(_) => None,
            Self::Object(origin) => Some(origin),
            Self::Field(parent, _)
            | Self::Index(parent, _)
            | Self::Key(parent, _)
            | Self::Text(parent, _) => parent.origin(),
        }
    }

    pub(crate) fn text<'a>(&'a self, text: &'a str) -> Path<'a> {
        Path::Text(self, text)
    }

    pub(super) fn key<'a>(&'a self, key: &'a str) -> Path<'a> {
        Path::Key(self, key)
    }
}

/// For example `snapshot.replica_sets[2].metadata.labels["example.com/tier"]`.
impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(name) => f.write_str(name),
            Self::Field(parent, name) if self.origin().is_some() => {
                write!(f, "{parent}.{}", JsonName(name))
            }
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Object(origin) => write!(f, "{origin}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Self::Key(parent, key) => write!(f, "{parent}[{key:?}]"),
            Self::Text(parent, text) => write!(f, "{parent}{text}"),
        }
    }
}

/// A name of the contract, or a path of names, in JSON form: "max_surge" is "maxSurge".
pub(crate) struct JsonName<'a>(pub(crate) &'a str);

impl fmt::Display for JsonName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = self.0.split('_');
        f.write_str(words.next().unwrap_or_default())?;
        words.try_for_each(|word| {
            let (first, rest) = word.split_at(word.len().min(1));
            write!(f, "{}{rest}", first.to_ascii_uppercase())
        })
    }
}
