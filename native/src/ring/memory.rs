//! Memory that two processes share: the only place of the rings with `unsafe`.
//!
//! Both map the same file without a name, whose size is sealed: no process can make it smaller, so
//! no access can fail. The other process may write at any time. So nothing here returns a reference
//! to bytes: they are copied, and numbers are atomic.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

/// Shared memory of a fixed size.
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    size: usize,
    file: File,
}

// SAFETY: all access is by copies within its bounds and by atomic numbers; it is unmapped when
// nobody has it any more.
unsafe impl Send for Memory {}
// SAFETY: see above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Make memory, all zeros.
    ///
    /// # Errors
    /// There is no memory, or there are no descriptors left.
    pub fn new(size: usize) -> io::Result<Self> {
        let mut file = match Self::file(libc::MFD_NOEXEC_SEAL) {
            // A kernel before 6.3 does not know this flag; a later one may demand it.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Self::file(0)?,
            made => made?,
        };
        file.set_len(size as u64)?;
        // A policy that writes to each descriptor that it finds writes behind the end: it cannot.
        file.seek(SeekFrom::End(0))?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: it takes no pointers.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Self::map(file, size)
    }

    /// Return a new file without a name, in memory.
    fn file(flag: libc::c_uint) -> io::Result<File> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | flag;
        // SAFETY: the name is a C string.
        let made = unsafe { libc::memfd_create(c"penstock-ring".as_ptr(), flags) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nobody else's.
        Ok(File::from(unsafe { OwnedFd::from_raw_fd(made) }))
    }

    /// Share the memory behind a descriptor, which stays open.
    ///
    /// # Errors
    /// It is not memory of this size.
    pub fn open(descriptor: RawFd, size: usize) -> io::Result<Self> {
        if descriptor < 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: it is borrowed for this call. A descriptor that is not open makes it fail.
        let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let file = File::from(borrowed.try_clone_to_owned()?);
        if file.metadata()?.len() != size as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Self::map(file, size)
    }

    fn map(file: File, size: usize) -> io::Result<Self> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping of an open file, at an address that the system chooses.
        let mapped =
            unsafe { libc::mmap(ptr::null_mut(), size, access, flags, file.as_raw_fd(), 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(mapped.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, size, file })
    }

    /// Return an atomic number; None out of bounds, or where it is not aligned.
    pub fn number(&self, at: usize) -> Option<&AtomicU64> {
        if at.checked_add(size_of::<u64>())? > self.size || !at.is_multiple_of(8) {
            return None;
        }
        // SAFETY: it is in bounds and aligned, as the mapping is aligned to pages, and all access to
        // it is atomic, in both processes.
        Some(unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(at).cast()) })
    }

    /// Write bytes; return false, and write nothing, out of bounds.
    #[must_use]
    pub fn write(&self, at: usize, bytes: &[u8]) -> bool {
        if at.checked_add(bytes.len()).is_none_or(|end| end > self.size) {
            return false;
        }
        // SAFETY: it is in bounds, and no reference to this memory exists.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(at), bytes.len());
        }
        true
    }

    /// Read bytes; return false, and read nothing, out of bounds.
    #[must_use]
    pub fn read(&self, at: usize, into: &mut [u8]) -> bool {
        if at.checked_add(into.len()).is_none_or(|end| end > self.size) {
            return false;
        }
        // SAFETY: it is in bounds, and no reference to this memory exists.
        unsafe {
            ptr::copy_nonoverlapping(self.start.as_ptr().add(at), into.as_mut_ptr(), into.len());
        }
        true
    }
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and nobody has it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast::<c_void>(), self.size) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn both_see_the_same_and_nothing_is_accessed_out_of_bounds() {
        let ours = Memory::new(4096).unwrap();
        let theirs = Memory::open(ours.as_fd().as_raw_fd(), 4096).unwrap();
        assert!(!ours.write(4090, b"records") && ours.write(10, b"records"));
        let mut bytes = [0; 7];
        assert!(theirs.read(10, &mut bytes) && &bytes == b"records");
        assert!(!theirs.read(4090, &mut bytes) && !theirs.read(usize::MAX, &mut bytes));
        theirs.number(64).unwrap().store(7, Ordering::Release);
        assert_eq!(ours.number(64).unwrap().load(Ordering::Acquire), 7);
        assert!(ours.number(4096).is_none() && ours.number(4089).is_none());
        assert!(ours.number(1).is_none() && ours.number(usize::MAX).is_none());
    }

    #[test]
    fn it_cannot_be_executed_nor_written_to_by_its_descriptor() {
        let ours = Memory::new(4096).unwrap();
        assert!((&ours.file).write(b"stray").is_err());
        assert_eq!(ours.number(0).unwrap().load(Ordering::Acquire), 0);
        if Path::new("/proc/sys/vm/memfd_noexec").exists() {
            assert_eq!(ours.file.metadata().unwrap().permissions().mode() & 0o111, 0);
        }
    }

    #[test]
    fn its_size_cannot_change() {
        let ours = Memory::new(4096).unwrap();
        assert!(ours.file.set_len(0).is_err() && ours.file.set_len(8192).is_err());
        assert!(Memory::open(ours.as_fd().as_raw_fd(), 8192).is_err());
        assert!(Memory::open(-1, 4096).is_err());
    }
}
