//! A token bucket.

use std::time::Duration;

use tokio::time::Instant;

/// Lets `burst` through at once and `per_second` in the long run.
#[derive(Debug)]
pub struct Limiter {
    per_second: f64,
    burst: f64,
    tokens: f64,
    at: Instant,
}

impl Limiter {
    /// A full bucket.
    pub fn new(per_second: u32, burst: u32, now: Instant) -> Self {
        let burst = f64::from(burst.max(1));
        Self { per_second: f64::from(per_second.max(1)), burst, tokens: burst, at: now }
    }

    /// Lets so many through from now on.
    pub fn set_rate(&mut self, per_second: u32, now: Instant) {
        self.refill(now);
        self.per_second = f64::from(per_second.max(1));
    }

    /// Takes a token if there is one.
    pub fn take(&mut self, now: Instant) -> bool {
        self.refill(now);
        let has = self.tokens >= 1.0;
        if has {
            self.tokens -= 1.0;
        }
        has
    }

    /// Puts tokens back that were taken and not used.
    pub fn give_back(&mut self, tokens: usize) {
        for _ in 0..tokens {
            self.tokens = (self.tokens + 1.0).min(self.burst);
        }
    }

    /// When the next token will be there.
    pub fn next(&self) -> Instant {
        let missing = (1.0 - self.tokens).max(0.0);
        self.at + Duration::from_secs_f64(missing / self.per_second)
    }

    fn refill(&mut self, now: Instant) {
        self.tokens = (now.saturating_duration_since(self.at))
            .as_secs_f64()
            .mul_add(self.per_second, self.tokens)
            .min(self.burst);
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate_holds() {
        let start = Instant::now();
        let mut limiter = Limiter::new(10, 3, start);
        assert!(limiter.take(start) && limiter.take(start) && limiter.take(start));
        assert!(!limiter.take(start));
        let later = start + Duration::from_millis(101);
        assert!(limiter.take(later));
        assert!(!limiter.take(later));
        assert!(limiter.take(limiter.next() + Duration::from_millis(1)));
        limiter.set_rate(1_000, later);
        assert!(limiter.take(later + Duration::from_millis(2)));
    }
}
