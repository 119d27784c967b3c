//! Linux's epoll and eventfd, a second descriptor of a socket that Python has, and the time of a
//! thread: the only place of the lane with `unsafe`, because the system's functions take numbers and
//! pointers.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

const EVENTS: usize = 128;

/// The events that a socket is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interest {
    /// Bytes to read.
    pub read: bool,
    /// Room to write.
    pub write: bool,
    /// That the other side sends nothing more, although it is not read.
    pub end: bool,
}

impl Interest {
    /// Nothing.
    pub const NONE: Self = Self { read: false, write: false, end: false };
    /// Bytes to read.
    pub const READ: Self = Self { read: true, ..Self::NONE };
}

/// The end of a connection, or of a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// None.
    None,
    /// The other side sends nothing more, and that was waited for.
    Sending,
    /// The connection is closed or failed, whatever it was waited for.
    Connection,
}

/// An event of a socket.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// The token of the socket.
    pub token: u64,
    /// There are bytes, or there is the end.
    pub readable: bool,
    /// There is room.
    pub writable: bool,
    /// The end of the connection, or of a direction.
    pub end: End,
}

/// A level-triggered epoll instance.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// Make an instance without sockets.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: it takes no pointers.
        let descriptor = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor is new, and nobody else's.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// Wait for a socket from now on.
    ///
    /// # Errors
    /// The system does not do it.
    pub fn add(&self, socket: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket.as_fd(), token, interest)
    }

    /// Wait for other events.
    ///
    /// # Errors
    /// The system does not do it.
    pub fn modify(&self, socket: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, socket.as_fd(), token, interest)
    }

    /// Wait for a socket no longer; nothing happens if it is not waited for.
    pub fn remove(&self, socket: &impl AsFd) {
        let _ = self.control(libc::EPOLL_CTL_DEL, socket.as_fd(), 0, Interest::NONE);
    }

    /// Return how many descriptors are waited for.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        let all = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", self.0.as_raw_fd()));
        all.unwrap().lines().filter(|line| line.starts_with("tfd:")).count()
    }

    fn control(
        &self,
        operation: libc::c_int,
        socket: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        let mut flags = 0;
        if interest.read {
            flags |= libc::EPOLLIN;
        }
        if interest.write {
            flags |= libc::EPOLLOUT;
        }
        if interest.end {
            flags |= libc::EPOLLRDHUP;
        }
        let mut event = libc::epoll_event { events: flags.cast_unsigned(), u64: token };
        // SAFETY: both descriptors are open, and the event is read during the call only.
        let done = unsafe {
            libc::epoll_ctl(self.0.as_raw_fd(), operation, socket.as_raw_fd(), &raw mut event)
        };
        checked(done).map(|_| ())
    }

    /// Wait until something happens, or not at all; put into `found` what has happened.
    ///
    /// # Errors
    /// The system does not do it.
    pub fn wait(&self, found: &mut Vec<Event>, waits: bool) -> io::Result<()> {
        found.clear();
        let timeout = if waits { -1 } else { 0 };
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let room = i32::try_from(EVENTS).unwrap_or(1);
        // SAFETY: there is room for the given number of events.
        let waited =
            unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), room, timeout) };
        let count = match checked(waited) {
            Ok(count) => usize::try_from(count).unwrap_or(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        found.extend(events.iter().take(count).map(|event| {
            let flags = event.events.cast_signed();
            Event {
                token: event.u64,
                readable: flags & libc::EPOLLIN != 0,
                writable: flags & libc::EPOLLOUT != 0,
                end: if flags & (libc::EPOLLHUP | libc::EPOLLERR) != 0 {
                    End::Connection
                } else if flags & libc::EPOLLRDHUP != 0 {
                    End::Sending
                } else {
                    End::None
                },
            }
        }));
        Ok(())
    }
}

/// Wakes another thread, which waits for its descriptor.
#[derive(Debug)]
pub struct Waker(File);

impl Waker {
    /// Make a waker that has not woken anybody.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: it takes no pointers.
        let made = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        let descriptor = checked(made)?;
        // SAFETY: the descriptor is new, and nobody else's.
        Ok(Self(File::from(unsafe { OwnedFd::from_raw_fd(descriptor) })))
    }

    /// Wake the thread. It may be awake.
    pub fn wake(&self) {
        // It fails only where it was called 2^64 times: then the descriptor is readable anyway.
        let _ = (&self.0).write(&1_u64.to_ne_bytes());
    }

    /// Take note: the descriptor is readable again after the next `wake`.
    pub fn reset(&self) {
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Return a second descriptor of a connected socket. The first descriptor stays its owner's.
///
/// # Errors
/// It is not open, or there are no descriptors left.
pub fn duplicate(socket: RawFd) -> io::Result<TcpStream> {
    if socket < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: it is borrowed for the duration of this call, in which its owner waits. A descriptor
    // that is not open makes the call fail.
    let borrowed = unsafe { BorrowedFd::borrow_raw(socket) };
    borrowed.try_clone_to_owned().map(TcpStream::from)
}

/// The end of a pipe that wakes whoever waits for the other end, in another process.
///
/// Each end has its own flags: the other process cannot make this end wait.
#[derive(Debug)]
pub struct Caller(File);

impl Caller {
    /// Wake the other process, which may be awake.
    pub fn wake(&self) {
        // A full pipe has woken it already.
        let _ = (&self.0).write(&[1]);
    }

    /// Return a second descriptor of an end.
    ///
    /// # Errors
    /// It is not open, or there are no descriptors left.
    pub fn duplicate(end: RawFd) -> io::Result<Self> {
        duplicate(end).map(|file| Self(File::from(OwnedFd::from(file))))
    }
}

impl AsFd for Caller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The other end.
#[derive(Debug)]
pub struct Called(File);

impl Called {
    /// Take note: it is readable again after the next `wake`.
    pub fn reset(&self) {
        let _ = (&self.0).read(&mut [0; 4096]);
    }

    /// Return a second descriptor of an end.
    ///
    /// # Errors
    /// It is not open, or there are no descriptors left.
    pub fn duplicate(end: RawFd) -> io::Result<Self> {
        duplicate(end).map(|file| Self(File::from(OwnedFd::from(file))))
    }
}

impl AsFd for Called {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Make a pipe.
///
/// # Errors
/// There are no descriptors left.
pub fn calls() -> io::Result<(Caller, Called)> {
    let mut ends = [0; 2];
    // SAFETY: there is room for two descriptors.
    checked(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) })?;
    let [read, write] = ends;
    // SAFETY: the descriptors are new, and nobody else's.
    let [read, write] = unsafe { [OwnedFd::from_raw_fd(read), OwnedFd::from_raw_fd(write)] };
    Ok((Caller(File::from(write)), Called(File::from(read))))
}

/// Wait until an end of a pipe or another descriptor is readable; return whether each of them is.
///
/// # Errors
/// The system does not do it.
pub fn wait_for_either(called: &Called, other: RawFd, timeout_ms: i32) -> io::Result<(bool, bool)> {
    let event = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut events = [event(called.0.as_raw_fd()), event(other)];
    // SAFETY: there are two events.
    match checked(unsafe { libc::poll(events.as_mut_ptr(), 2, timeout_ms) }) {
        Ok(_) => Ok((events[0].revents != 0, events[1].revents != 0)),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok((false, false)),
        Err(error) => Err(error),
    }
}

/// Return the CPU time of the calling thread, in seconds; None if the system does not report it.
pub fn thread_time() -> Option<f64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the time, which is written during the call only.
    let read = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    let seconds = u32::try_from(time.tv_sec).ok().map(f64::from);
    let nanoseconds = u32::try_from(time.tv_nsec).ok().map(f64::from);
    checked(read).ok().and(seconds).zip(nanoseconds).map(|(whole, rest)| whole + rest * 1e-9)
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
