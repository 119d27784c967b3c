//! Decompression with a limit that holds while decompressing: `penstock.kafka.records.compression`
//! for the forms that clients send.
//!
//! These are one gzip member, one lz4 or zstd frame, or snappy in either form, from the first byte
//! to the last. All other forms are Python's. Its decompressors are different, and return the same
//! content for all data that is accepted here.
#![forbid(unsafe_code)]

use std::io::{self, BufRead, Cursor, ErrorKind, Read};

use flate2::bufread::GzDecoder;
use snap::raw::{Decoder, decompress_len};

use super::lz4;
use super::steps::{BLOCK_MAX_BYTES, BLOCKS_MAX, Content, STEP_BLOCKS, STEP_BYTES};
use super::zstd;

/// Kafka's numbers of codecs.
const GZIP: u16 = 1;
const SNAPPY: u16 = 2;
const LZ4: u16 = 3;
/// Kafka's number of zstd.
pub const ZSTD: u16 = 4;

const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\0";
const XERIAL_HEADER_BYTES: usize = 16;

/// So many bytes of gzip, at most, are read in a step: blocks take time, even without content.
const STEP_READ_BYTES: usize = 8 * 1024;
/// Return the records of a batch, decompressed; None where they are damaged, too large, or Python's.
pub fn decompressed(codec: u16, data: &[u8], limit: usize) -> Option<Vec<u8>> {
    if codec == GZIP {
        let mut member = Gzip::new(data, limit)?; // without a copy of them
        while !member.go_on()? {}
        return Some(member.found);
    }
    let mut decompression = Decompression::begin(codec, data, limit)?;
    while !decompression.go_on(data)? {}
    Some(decompression.found())
}

/// The records of a batch that are decompressed in steps.
pub enum Decompression {
    /// Of gzip.
    Gzip(Box<Gzip<Cursor<Vec<u8>>>>),
    /// Of snappy.
    Snappy(Snappy),
    /// Of lz4.
    Lz4(lz4::Frame),
    /// Of zstd.
    Zstd(zstd::Frame),
}

impl Decompression {
    /// Begin; None where it is found at once that the bytes are damaged, too large, or Python's.
    pub fn begin(codec: u16, data: &[u8], limit: usize) -> Option<Self> {
        match codec {
            GZIP => Gzip::new(Cursor::new(data.to_vec()), limit).map(Box::new).map(Self::Gzip),
            SNAPPY => Snappy::new(data, limit).map(Self::Snappy),
            LZ4 => lz4::Frame::new(data, limit).map(Self::Lz4),
            ZSTD => zstd::Frame::new(data, limit).map(Self::Zstd),
            _ => None,
        }
    }

    /// Decompress about `STEP_BYTES`; return whether that was all, None where it is not possible.
    ///
    /// `data` is the same each time.
    pub fn go_on(&mut self, data: &[u8]) -> Option<bool> {
        match self {
            Self::Gzip(member) => member.go_on(),
            Self::Snappy(snappy) => snappy.go_on(data),
            Self::Lz4(frame) => frame.go_on(data),
            Self::Zstd(frame) => frame.go_on(data),
        }
    }

    /// Return the content, which is complete.
    pub fn found(self) -> Vec<u8> {
        match self {
            Self::Gzip(member) => member.found,
            Self::Snappy(snappy) => snappy.content.into_bytes(),
            Self::Lz4(frame) => frame.content.into_bytes(),
            Self::Zstd(frame) => frame.found,
        }
    }

    /// Return how many bytes of memory are held.
    pub fn held_bytes(&self) -> usize {
        match self {
            Self::Gzip(member) => {
                let data = member.member.get_ref().bytes.get_ref().capacity();
                member.found.capacity().saturating_add(data)
            }
            Self::Snappy(snappy) => snappy.content.held_bytes(),
            Self::Lz4(frame) => frame.content.held_bytes(),
            Self::Zstd(frame) => frame.held_bytes(),
        }
    }
}

/// Bytes of which only so many are read; then more have to be allowed.
struct Portions<R> {
    bytes: R,
    allowed: usize,
}

impl<R: BufRead> Read for Portions<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(room)?;
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Portions<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.allowed == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let bytes = self.bytes.fill_buf()?;
        Ok(bytes.get(..self.allowed).unwrap_or(bytes))
    }

    fn consume(&mut self, count: usize) {
        self.allowed = self.allowed.saturating_sub(count);
        self.bytes.consume(count);
    }
}

/// A member of gzip.
pub struct Gzip<R> {
    member: GzDecoder<Portions<R>>,
    found: Vec<u8>,
    limit: usize,
}

impl<R: BufRead> Gzip<R> {
    fn new(data: R, limit: usize) -> Option<Self> {
        limit.checked_add(1)?;
        let member = GzDecoder::new(Portions { bytes: data, allowed: 0 });
        Some(Self { member, found: Vec::new(), limit })
    }

    fn go_on(&mut self) -> Option<bool> {
        let most = self.limit.checked_sub(self.found.len())?.checked_add(1)?.min(STEP_BYTES);
        self.member.get_mut().allowed = STEP_READ_BYTES;
        let part = self.member.by_ref().take(u64::try_from(most).ok()?);
        match { part }.read_to_end(&mut self.found) {
            // The end was read, where the checksum is.
            Ok(count) if count < most => {
                self.member.get_mut().bytes.fill_buf().ok()?.is_empty().then_some(true)
            }
            Err(error) if error.kind() != ErrorKind::WouldBlock => None,
            _ => (self.found.len() <= self.limit).then_some(false),
        }
    }
}

/// Blocks of snappy: a single block, or those of xerial's framing, each of which follows its length.
pub struct Snappy {
    is_framed: bool,
    /// Where the next block, or its length, is.
    at: usize,
    /// How many blocks were decompressed.
    blocks: usize,
    content: Content,
}

impl Snappy {
    fn new(data: &[u8], limit: usize) -> Option<Self> {
        let is_framed = data.starts_with(XERIAL_MAGIC);
        let at = if is_framed { XERIAL_HEADER_BYTES } else { 0 };
        data.get(at..)?;
        Some(Self { is_framed, at, blocks: 0, content: Content::new(limit) })
    }

    /// Return whether all blocks were decompressed.
    const fn is_over(&self, data: &[u8]) -> bool {
        if self.is_framed { self.at >= data.len() } else { self.blocks > 0 }
    }

    fn go_on(&mut self, data: &[u8]) -> Option<bool> {
        let enough = self.content.size().saturating_add(STEP_BYTES);
        let last = self.blocks.saturating_add(STEP_BLOCKS);
        while !self.is_over(data) && self.content.size() < enough && self.blocks < last {
            let block = self.next(data)?;
            let size = decompress_len(block).ok().filter(|size| *size <= BLOCK_MAX_BYTES)?;
            let room = self.content.room(size)?;
            if self.blocks == BLOCKS_MAX || Decoder::new().decompress(block, room).ok()? != size {
                return None;
            }
            self.content.add(size)?;
            self.blocks = self.blocks.checked_add(1)?;
        }
        Some(self.is_over(data))
    }

    fn next<'a>(&mut self, data: &'a [u8]) -> Option<&'a [u8]> {
        if !self.is_framed {
            return Some(data);
        }
        let (length, behind) = data.get(self.at..)?.split_first_chunk()?;
        let length = usize::try_from(i32::from_be_bytes(*length)).ok().filter(|size| *size > 0)?;
        let block = behind.get(..length)?;
        self.at = self.at.checked_add(4)?.checked_add(length)?;
        Some(block)
    }
}
