//! The header of a record batch of magic 2 (`DefaultRecordBatch`).
#![forbid(unsafe_code)]

use crc::{CRC_32_ISCSI, Crc, Table};

/// The size of a header, which the records follow.
pub const HEADER_BYTES: usize = 61;
/// The base offset and the length, which the length does not count.
const PREFIX_BYTES: usize = 12;
const CRC_FROM: usize = 21;
/// The attribute bits of the codec.
pub const CODEC: u16 = 0x07;
/// The timestamps are the broker's.
pub const LOG_APPEND_TIME: u16 = 0x08;
/// The batch belongs to a transaction.
pub const TRANSACTIONAL: u16 = 0x10;
/// The batch holds the marker of a transaction.
pub const CONTROL: u16 = 0x20;
/// The magic of batches with this header.
pub const MAGIC: u8 = 2;

static CHECKSUM: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// The fields of a header, in its order.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // they are Kafka's
pub struct Header {
    pub base_offset: i64,
    /// The bytes of the batch, header included; None where the length is negative.
    pub size: Option<usize>,
    pub leader_epoch: i32,
    pub magic: u8,
    pub checksum: u32,
    pub attributes: u16,
    pub last_offset_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub base_sequence: i32,
    pub record_count: i32,
}

impl Header {
    /// Read a header.
    pub fn read(bytes: &[u8; HEADER_BYTES]) -> Self {
        let length = i32::from_be_bytes(field(bytes, 8));
        Self {
            base_offset: i64::from_be_bytes(field(bytes, 0)),
            size: usize::try_from(length).ok().and_then(|length| length.checked_add(PREFIX_BYTES)),
            leader_epoch: i32::from_be_bytes(field(bytes, 12)),
            magic: bytes[16],
            checksum: u32::from_be_bytes(field(bytes, 17)),
            attributes: u16::from_be_bytes(field(bytes, CRC_FROM)),
            last_offset_delta: i32::from_be_bytes(field(bytes, 23)),
            base_timestamp: i64::from_be_bytes(field(bytes, 27)),
            max_timestamp: i64::from_be_bytes(field(bytes, 35)),
            producer_id: i64::from_be_bytes(field(bytes, 43)),
            base_sequence: i32::from_be_bytes(field(bytes, 53)),
            record_count: i32::from_be_bytes(field(bytes, 57)),
        }
    }
}

/// Return the checksum of a batch: of a part of its header, and of its stored records.
pub fn checksum(header: &[u8; HEADER_BYTES], records: &[u8]) -> u32 {
    let mut digest = CHECKSUM.digest();
    digest.update(&header[CRC_FROM..]);
    digest.update(records);
    digest.finalize()
}

/// The positions are those above: each field is within the header.
fn field<const SIZE: usize>(header: &[u8; HEADER_BYTES], at: usize) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    bytes.copy_from_slice(&header[at..at + SIZE]);
    bytes
}
