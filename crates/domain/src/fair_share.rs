//! The rule by which several holders share a bounded number of permits.
//!
//! A holder gets a further permit only while more permits are free than it holds. One holder therefore has at most half
//! of the permits, and `n` holders leave one in `n + 1` free for the next. (Dynamic thresholds: Choudhury and Hahne,
//! IEEE/ACM Transactions on Networking 6(2), 1998.)

/// True if a holder of `held` permits may have a further one while `free` are free.
#[must_use]
pub const fn admits(held: usize, free: usize) -> bool {
    admits_many(held, 1, free)
}

/// True if a holder of `held` permits may have `many` further ones together while `free` are free. Zero is
/// always admitted.
#[must_use]
pub const fn admits_many(held: usize, many: usize, free: usize) -> bool {
    Weight::EVEN.admits(held, many, free)
}

/// The number of permits that a holder may have for each free one. With weight `w`, one holder has at most
/// `w / (w + 1)` of `n + 1` permits, where `n` is their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight(pub usize);

impl Weight {
    /// One holder has at most half of the permits.
    pub const EVEN: Self = Self(1);

    /// True if a holder of `held` permits may have `many` further ones together while `free` are free.
    #[must_use]
    pub const fn admits(self, held: usize, many: usize, free: usize) -> bool {
        many == 0 || many <= free && held.saturating_add(many) <= free.saturating_mul(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_that_asks_for_no_permit_need_not_wait() {
        assert!(admits_many(9, 0, 3) && !admits_many(9, 1, 3));
    }

    #[test]
    fn each_further_holder_finds_a_free_permit() {
        let mut free = 12;
        let counts = [(); 4].map(|()| {
            let mut held = 0;
            while admits(held, free) {
                (held, free) = (held + 1, free - 1);
            }
            held
        });
        assert_eq!((counts, free), ([6, 3, 2, 1], 0));
        assert!(admits(0, 1) && !admits(0, 0), "a single permit is for each holder in turn");
    }

    #[test]
    fn a_heavier_holder_leaves_a_smaller_part() {
        let weight = Weight(3);
        let held = (0..64).take_while(|held| weight.admits(*held, 1, 64 - held)).count();
        assert_eq!(held, 48);
        assert!(weight.admits(0, 1, 1) && !weight.admits(0, 2, 1) && !weight.admits(0, 1, 0));
    }
}
