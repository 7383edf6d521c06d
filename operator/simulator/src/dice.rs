//! Dice that fall alike on every machine and in every version: `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014).

/// A sequence of numbers that follows from its seed.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `count`, each as likely but for one part in 2^64 / `count`; 0 if there is none.
    pub fn below(&mut self, count: usize) -> usize {
        let product = u128::from(self.bits()) * u128::try_from(count).unwrap_or_default();
        usize::try_from(product >> 64).unwrap_or_default()
    }

    /// A number from 0 on and below 1.
    #[allow(clippy::cast_precision_loss, reason = "53 bits are exact")]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A normally distributed number with mean 0 and variance 1 (Marsaglia's polar method).
    pub fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * (-2.0 * square.ln() / square).sqrt();
            }
        }
    }

    /// Puts things in a random order.
    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            let other = self.below(last + 1);
            things.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_those_of_the_published_algorithm() {
        let mut dice = Dice::new(1_234_567);
        assert_eq!(dice.bits(), 6_457_827_717_110_365_317);
        assert_eq!(dice.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn a_shuffle_loses_nothing_and_numbers_stay_in_their_range() {
        let mut dice = Dice::new(7);
        let mut things: Vec<_> = (0..100).collect();
        dice.shuffle(&mut things);
        assert_ne!(things, (0..100).collect::<Vec<_>>());
        things.sort_unstable();
        assert_eq!(things, (0..100).collect::<Vec<_>>());
        assert_eq!(dice.below(0), 0);
        assert!((0..1000).all(|_| dice.below(7) < 7 && (0.0..1.0).contains(&dice.unit())));
        let mean = (0..10_000).map(|_| dice.normal()).sum::<f64>() / 10_000.0;
        assert!(mean.abs() < 0.05, "{mean}");
    }
}
