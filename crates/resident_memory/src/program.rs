//! Unmaps pages of the program's own file that the process no longer uses.
//!
//! A start runs most of a program's code once. The kernel maps 64 KiB around each touched page (`fault_around_bytes`),
//! so most of the file stays resident although serving needs a small part of it. [`release`] unmaps those pages:
//!
//! - **Lossless.** Only read-only segments of the executable without private copies of pages are unmapped. Their pages
//!   equal the file and stay in the page cache; the next access maps them again without reading the disk.
//! - **Relocated data and breakpoints stay.** A segment with a private page (`Anonymous` above 0 in `smaps`) is
//!   skipped.
//! - **Cheap.** It costs one read of `/proc/self/smaps`, one system call for each segment, and one minor page fault
//!   for each 64 KiB that is used again.
//!
//! Source: `madvise(2)`, `MADV_DONTNEED`; `proc_pid_smaps(5)`. Systems other than Linux are not changed.

#[cfg(target_os = "linux")]
mod smaps;

/// Unmaps the clean pages of the executable's read-only segments and returns how many bytes were resident in them.
///
/// # Errors
/// `/proc` cannot be read, or the kernel refuses the advice; then the process goes on unchanged.
#[cfg(target_os = "linux")]
pub fn release() -> std::io::Result<u64> {
    let program = std::fs::read_link("/proc/self/exe")?;
    let smaps = std::fs::read_to_string("/proc/self/smaps")?;
    let mut released = 0;
    for segment in smaps::clean_segments(&smaps, &program.to_string_lossy()) {
        unmap(segment.start, segment.length)?;
        released += segment.resident;
    }
    Ok(released)
}

/// Does nothing on this system and returns 0.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn release() -> std::io::Result<u64> {
    Ok(0)
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no safe interface advises the kernel about the program's own segments")]
fn unmap(start: usize, length: usize) -> std::io::Result<()> {
    use rustix::mm::{Advice, madvise};

    // SAFETY: The range is one whole segment of the executable, which the loader maps for the life of the process. It is private, not
    // writable, and without a single private page, so its content is the file's before and after. The file cannot change: the kernel
    // refuses to write to a running executable (ETXTBSY).
    unsafe { madvise(std::ptr::with_exposed_provenance_mut(start), length, Advice::LinuxDontNeed)? };
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    /// Resident bytes of the program's own file in this process.
    fn resident() -> u64 {
        let program = std::fs::read_link("/proc/self/exe").unwrap();
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let segments = super::smaps::clean_segments(&smaps, &program.to_string_lossy());
        segments.iter().map(|segment| segment.resident).sum()
    }

    #[test]
    fn the_programs_pages_are_unmapped_and_it_goes_on() {
        let before = resident();
        let released = super::release().unwrap();
        let after = resident();
        assert!(released > 0 && before > 0, "before {before}, released {released}");
        assert!(after < before, "{after} bytes are resident after the release, {before} before");
        // Unmapped code and constants are mapped again on use.
        assert_eq!(format!("{:>8.2}|{:?}", 2.5, "text".to_uppercase()), "    2.50|\"TEXT\"");
    }
}
