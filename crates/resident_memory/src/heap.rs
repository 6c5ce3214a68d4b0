//! Returns free pages of the allocator.
//!
//! The allocator keeps a freed page for a second before it returns it, and looks for expired pages only when a thread
//! allocates or frees. After a burst the threads sleep, so the pages of the burst would stay resident. A periodic call
//! of [`collect`] bounds that time by its period.
//!
//! Source: mimalloc v3, `mi_collect`, `mi_option_purge_delay`.

/// Returns all free pages of the process to the kernel, and the memory of the calling thread's empty pages. It takes
/// time proportional to the pages of the calling thread and the arenas of the process.
#[expect(unsafe_code, reason = "the allocator has no safe interface for this")]
pub fn collect() {
    // SAFETY: The function has no preconditions; it is safe to call from any thread at any time.
    unsafe { libmimalloc_sys::mi_collect(true) };
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use mimalloc::MiMalloc;

    #[global_allocator]
    static ALLOCATOR: MiMalloc = MiMalloc;

    /// Resident bytes of this process that are not pages of files.
    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }

    #[test]
    fn pages_that_sleeping_threads_freed_return_to_the_kernel() {
        const BYTES: usize = 64 << 20;
        let (filled, told) = std::sync::mpsc::channel();
        let (wake, sleeping) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let pages: Vec<Vec<u8>> = (0..BYTES / 4096).map(|_| vec![1; 4096]).collect();
            filled.send(resident()).unwrap();
            drop(pages);
            filled.send(resident()).unwrap();
            // The thread keeps its part of the heap while it sleeps.
            let _ = sleeping.recv();
        });
        let (full, freed) = (told.recv().unwrap(), told.recv().unwrap());
        super::collect();
        let after = resident();
        drop(wake);
        thread.join().unwrap();
        let half = BYTES as u64 / 2;
        assert!(full > BYTES as u64 && freed > half, "{full} bytes are resident when full, {freed} after the drop");
        assert!(after + half < freed, "{after} bytes are resident after the collection, {freed} before");
    }
}
