//! Flattens deeply nested headers before `lapin` reads them. Pure.
//!
//! `lapin` parses nested lists and tables by recursion, to any depth, on a thread with the usual
//! stack. A message with a few hundred nested lists, 2 KB of them, overflows it and ends the
//! process. The broker then delivers the message to the next one. So values that are too deep are
//! turned into bytes as they arrive: these have the same length on the wire as a list or table, and
//! differ only in the letter of the type.

/// The most nested tables and lists, including the headers themselves. Brokers write three.
const MOST: usize = 32;
/// The type letter of bytes.
const BYTES: u8 = b'x';
const HEADER_FRAME: u64 = 2;
/// The length of class, weight and body size of a content header, before its property flags.
const BEFORE_FLAGS: usize = 12;
/// A content header up to this length is not deep: a list takes five bytes, type and length.
const SHALLOW: usize = 5 * (MOST - 1);
/// The flags of the first properties.
const CONTENT_TYPE: u64 = 1 << 15;
const CONTENT_ENCODING: u64 = 1 << 14;
const HEADERS: u64 = 1 << 13;

/// The next element in the bytes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The type, channel and size of a frame.
    Frame,
    Flags,
    /// The length of a property before the headers.
    Property,
    /// The length of a key of a table.
    Key,
    /// The type letter of a value.
    Type,
    /// The length of a text or of bytes.
    Text,
    /// The length of a table or list.
    Inner(Kind),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Table,
    List,
}

/// A parser of a connection's bytes, in chunks of any size.
#[derive(Debug)]
pub(crate) struct Shallow {
    next: Next,
    /// Bytes to skip before it.
    skip: usize,
    /// The number of its missing bytes, and the value of the others.
    missing: usize,
    number: u64,
    /// The position in this frame, and the frame's size.
    at: usize,
    size: usize,
    /// The number of properties before the headers.
    properties: u32,
    /// The open tables and lists, with their ends.
    open: Vec<(Kind, usize)>,
}

impl Default for Shallow {
    fn default() -> Self {
        Self {
            next: Next::Frame,
            skip: 0,
            missing: 7,
            number: 0,
            at: 0,
            size: 0,
            properties: 0,
            open: Vec::new(),
        }
    }
}

impl Shallow {
    /// Parses the next bytes, and flattens values that are too deep.
    pub(crate) fn pass(&mut self, mut bytes: &mut [u8]) {
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            self.at += skipped;
            bytes = &mut bytes[skipped..];
            if bytes.is_empty() {
                return;
            }
            let (taken, rest) = bytes.split_at_mut(self.missing.min(bytes.len()));
            for byte in &*taken {
                self.number = self.number << 8 | u64::from(*byte);
            }
            self.at += taken.len();
            self.missing -= taken.len();
            if self.missing == 0 {
                let number = std::mem::take(&mut self.number);
                if self.read(number) {
                    // A type letter is one byte.
                    taken[0] = BYTES;
                }
            }
            bytes = rest;
        }
    }

    /// Advances past a number. True if it is the type letter of a value that is too deep.
    fn read(&mut self, number: u64) -> bool {
        // Numbers have at most four bytes.
        let length = usize::try_from(number & 0xffff_ffff).unwrap_or(usize::MAX);
        match self.next {
            Next::Frame => {
                (self.at, self.size) = (0, length);
                if number >> 48 == HEADER_FRAME && length > SHALLOW {
                    self.then(BEFORE_FLAGS, Next::Flags, 2);
                } else {
                    self.end();
                }
            }
            Next::Flags if number & HEADERS == 0 => self.end(),
            Next::Flags => {
                self.properties = (number & (CONTENT_TYPE | CONTENT_ENCODING)).count_ones();
                self.property(0);
            }
            Next::Property => {
                self.properties -= 1;
                self.property(length);
            }
            Next::Key => self.then(length, Next::Type, 1),
            Next::Type => return self.value(number),
            Next::Text => self.after(length),
            Next::Inner(kind) => {
                self.open.push((kind, self.at.saturating_add(length)));
                self.after(0);
            }
        }
        false
    }

    fn property(&mut self, skip: usize) {
        if self.properties > 0 {
            self.then(skip, Next::Property, 1);
        } else {
            self.then(skip, Next::Inner(Kind::Table), 4);
        }
    }

    fn value(&mut self, letter: u64) -> bool {
        let kind = match u8::try_from(letter).unwrap_or_default() {
            b'V' => return self.simple(0),
            b't' | b'b' | b'B' => return self.simple(1),
            b's' | b'u' | b'U' => return self.simple(2),
            b'I' | b'i' | b'f' => return self.simple(4),
            b'D' => return self.simple(5),
            b'l' | b'L' | b'd' | b'T' => return self.simple(8),
            b'S' | BYTES => {
                self.then(0, Next::Text, 4);
                return false;
            }
            b'A' => Kind::List,
            b'F' => Kind::Table,
            // Invalid data, which `lapin` cannot read either.
            _ => {
                self.end();
                return false;
            }
        };
        let too_deep = self.open.len() >= MOST;
        self.then(0, if too_deep { Next::Text } else { Next::Inner(kind) }, 4);
        too_deep
    }

    fn simple(&mut self, length: usize) -> bool {
        self.after(length);
        false
    }

    /// Advances past a value of this length.
    fn after(&mut self, length: usize) {
        let here = self.at.saturating_add(length);
        while self.open.pop_if(|(_, end)| *end <= here).is_some() {}
        match self.open.last() {
            Some((Kind::Table, _)) => self.then(length, Next::Key, 1),
            Some((Kind::List, _)) => self.then(length, Next::Type, 1),
            None => self.end(),
        }
    }

    /// Skips bytes of this frame, then reads a number of `missing` bytes.
    fn then(&mut self, skip: usize, next: Next, missing: usize) {
        if self.at.saturating_add(skip).saturating_add(missing) > self.size {
            return self.end();
        }
        (self.skip, self.next, self.missing) = (skip, next, missing);
    }

    /// Skips the rest of the frame, including its end byte.
    fn end(&mut self) {
        self.open.clear();
        self.skip = (self.size - self.at.min(self.size)).saturating_add(1);
        (self.next, self.missing) = (Next::Frame, 7);
    }
}

#[cfg(test)]
#[path = "depth_tests.rs"]
mod tests;
