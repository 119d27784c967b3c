//! The bytes of a connection's socket, perhaps with TLS.
#![forbid(unsafe_code)]

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use super::locked;
use super::tls::{Phase, Tls};

/// A socket, and the TLS on it.
pub struct Stream {
    socket: TcpStream,
    tls: Option<Arc<Mutex<Tls>>>,
    /// Whether encrypted bytes are to be written first.
    has_unsent: bool,
    /// How many bytes of memory these take.
    held_bytes: usize,
    /// Whether a record was received in part.
    has_part: bool,
}

/// The bytes that were read.
pub enum Received<'a> {
    /// Bytes without TLS.
    Bytes(&'a [u8]),
    /// Decrypted bytes, which are empty for a part of a record; and their continuation.
    Decrypted(Vec<u8>, Behind),
    /// The end.
    End,
    /// Nothing for now.
    Nothing,
}

/// The continuation after decrypted bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// More bytes, later.
    More,
    /// Their end, or an error in them: Python finds it, too.
    End,
    /// The socket has failed.
    Failure,
}

/// So much is read of TLS at once. Python may wait for it, and small records take the most time.
const TLS_READ_BYTES: usize = 64 * 1024;

impl Stream {
    /// Take over a non-blocking socket.
    pub fn new(socket: TcpStream, tls: Option<Arc<Mutex<Tls>>>) -> Self {
        let held_bytes = tls.as_ref().map_or(0, |tls| locked(tls).held_bytes());
        Self { socket, tls, has_unsent: false, held_bytes, has_part: false }
    }

    /// Return the socket.
    pub const fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Return whether something was encrypted that the socket has not taken.
    pub const fn has_unsent(&self) -> bool {
        self.has_unsent
    }

    /// Return whether a record of TLS was received in part.
    pub const fn has_part(&self) -> bool {
        self.has_part
    }

    /// Return how many bytes of memory are held.
    pub const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Read once, into `room`.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn read<'a>(&mut self, room: &'a mut [u8]) -> io::Result<Received<'a>> {
        let most = if self.tls.is_some() { TLS_READ_BYTES.min(room.len()) } else { room.len() };
        let room = room.get_mut(..most).unwrap_or_default();
        let count = match (&self.socket).read(room) {
            Ok(0) => return Ok(Received::End),
            Ok(count) => count,
            Err(error) if is_temporary(&error) => return Ok(Received::Nothing),
            Err(error) => return Err(error),
        };
        let data = room.get(..count).unwrap_or_default();
        let Some(tls) = self.tls.clone() else { return Ok(Received::Bytes(data)) };
        let (plain, goes_on) = {
            let mut tls = locked(&tls);
            let plain = tls.receive(data);
            self.has_part = tls.has_part();
            (plain, tls.phase() == Phase::Open)
        };
        let behind = match goes_on {
            // An alert is Python's to send, with all else that it does then.
            false => Behind::End,
            true if self.flush().is_err() => Behind::Failure,
            true => Behind::More,
        };
        Ok(Received::Decrypted(plain, behind))
    }

    /// Write as many bytes as the socket takes; return their number.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let Some(tls) = self.tls.clone() else { return write(&self.socket, data) };
        let mut sent = 0_usize;
        self.flush()?;
        while let Some(rest) = data.get(sent..).filter(|rest| !rest.is_empty()) {
            if self.has_unsent {
                break;
            }
            let count = locked(&tls).send(rest);
            if count == 0 {
                return Err(ErrorKind::BrokenPipe.into());
            }
            sent = sent.saturating_add(count);
            self.flush()?;
        }
        Ok(sent)
    }

    /// Write encrypted bytes, as many as the socket takes.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn flush(&mut self) -> io::Result<()> {
        if let Some(tls) = &self.tls {
            let mut tls = locked(tls);
            let count = write(&self.socket, tls.unsent())?;
            tls.written(count);
            self.has_unsent = !tls.unsent().is_empty();
            self.held_bytes = tls.held_bytes();
        }
        Ok(())
    }
}

fn write(mut socket: &TcpStream, data: &[u8]) -> io::Result<usize> {
    let mut sent = 0_usize;
    while let Some(rest) = data.get(sent..).filter(|rest| !rest.is_empty()) {
        match socket.write(rest) {
            Ok(0) => break,
            Ok(count) => sent = sent.saturating_add(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpListener};

    use super::super::tls::tests::{connected, said};
    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let theirs = TcpStream::connect(listening.local_addr().unwrap()).unwrap();
        (theirs, listening.accept().unwrap().0)
    }

    fn read(stream: &mut Stream) -> (Vec<u8>, Behind) {
        let mut room = vec![0; 256 * 1024];
        match stream.read(&mut room).unwrap() {
            Received::Decrypted(plain, behind) => (plain, behind),
            _ => panic!("it has TLS"),
        }
    }

    #[test]
    fn of_tls_no_more_is_read_at_once_than_is_decrypted_quickly() {
        let (mut client, tls) = connected();
        let (mut theirs, ours) = pair();
        let mut stream = Stream::new(ours, Some(Arc::new(Mutex::new(tls))));
        let data: Vec<u8> = (0..20).flat_map(|_| said(&mut client, &[7; 10_000])).collect();
        let sending = std::thread::spawn(move || theirs.write_all(&data).map(|()| theirs));
        let mut received = 0;
        while received < 200_000 {
            let (plain, behind) = read(&mut stream);
            assert!(plain.len() <= TLS_READ_BYTES + 10_000 && behind == Behind::More);
            received += plain.len();
            assert!(stream.held_bytes() < 10_100); // a part of a record
        }
        assert_eq!(received, 200_000);
        assert_eq!(stream.held_bytes(), 0);
        sending.join().unwrap().unwrap();
    }

    #[test]
    fn what_was_read_counts_although_nothing_can_be_written() {
        let (mut client, mut tls) = connected();
        let (mut theirs, ours) = pair();
        tls.send(b"a response");
        ours.shutdown(Shutdown::Write).unwrap();
        let mut stream = Stream::new(ours, Some(Arc::new(Mutex::new(tls))));
        theirs.write_all(&said(&mut client, b"a request")).unwrap();
        assert_eq!(read(&mut stream), (b"a request".to_vec(), Behind::Failure));
    }
}
