//! A JSON parser for test data. It panics on invalid input.

use std::collections::BTreeMap;

use crate::template::{Number, Value};

pub(in crate::template) fn parse(text: &str) -> Value {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value();
    assert_eq!(reader.rest().trim(), "", "after the JSON value in {text}");
    value
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Consumes a token and the whitespace before it, if it is next.
    fn eat(&mut self, token: &str) -> bool {
        let rest = self.rest();
        let found = rest.trim_start().strip_prefix(token);
        if let Some(remaining) = found {
            self.at += rest.len() - remaining.len();
        }
        found.is_some()
    }

    fn must_eat(&mut self, token: &str) {
        assert!(self.eat(token), "expected {token} at {}", self.rest());
    }

    fn value(&mut self) -> Value {
        if self.eat("null") {
            Value::Null
        } else if self.eat("true") {
            Value::Bool(true)
        } else if self.eat("false") {
            Value::Bool(false)
        } else if self.eat("[") {
            self.list()
        } else if self.eat("{") {
            self.map()
        } else if self.eat("\"") {
            Value::String(self.string())
        } else {
            self.number()
        }
    }

    fn list(&mut self) -> Value {
        let mut items = Vec::new();
        while !self.eat("]") {
            if !items.is_empty() {
                self.must_eat(",");
            }
            items.push(self.value());
        }
        Value::List(items)
    }

    fn map(&mut self) -> Value {
        let mut entries = BTreeMap::new();
        while !self.eat("}") {
            if !entries.is_empty() {
                self.must_eat(",");
            }
            self.must_eat("\"");
            let key = self.string();
            self.must_eat(":");
            entries.insert(key, self.value());
        }
        Value::Map(entries)
    }

    /// Parses a string after its opening quote.
    fn string(&mut self) -> String {
        let mut text = String::new();
        let mut chars = self.rest().char_indices();
        loop {
            match chars.next() {
                Some((end, '"')) => {
                    self.at += end + 1;
                    return text;
                }
                Some((_, '\\')) => text.push(match chars.next() {
                    Some((_, 'n')) => '\n',
                    Some((_, 'r')) => '\r',
                    Some((_, 't')) => '\t',
                    Some((_, 'b')) => '\u{8}',
                    Some((_, 'f')) => '\u{c}',
                    Some((_, 'u')) => {
                        let code = chars.by_ref().take(4).fold(0, |code, (_, digit)| {
                            code * 16 + digit.to_digit(16).unwrap_or(0)
                        });
                        char::from_u32(code).unwrap_or('\u{fffd}')
                    }
                    Some((_, other)) => other,
                    None => panic!("unterminated string"),
                }),
                Some((_, other)) => text.push(other),
                None => panic!("unterminated string"),
            }
        }
    }

    fn number(&mut self) -> Value {
        let rest = self.rest().trim_start();
        let length = rest
            .find(|c: char| ",]}".contains(c) || c.is_whitespace())
            .unwrap_or(rest.len());
        match rest[..length].parse::<f64>() {
            // As in protobuf, every number is a float.
            Ok(number) => {
                self.must_eat(&rest[..length]);
                Value::Number(Number::from(number))
            }
            Err(error) => panic!("{error}: {rest}"),
        }
    }
}
