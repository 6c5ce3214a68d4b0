//! Returns resident memory to the kernel that the process does not need: pages of its own file that only the start
//! used ([`program`]), and free pages that the allocator keeps ([`heap`]). Neither changes data of the process.
//!
//! It is the only crate with unsafe code: no safe interface reaches the kernel or the allocator for this.

pub mod heap;
pub mod program;
