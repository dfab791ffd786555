//! A set of small numbers: the memories a search may look at.

/// A set of numbers from 0 to a bound. Numbers beyond it are never members.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bits {
    words: Vec<u64>,
    count: usize,
}

impl Bits {
    /// An empty set with room for numbers up to `last`.
    pub(crate) fn up_to(last: i64) -> Self {
        Self { words: vec![0; usize::try_from(last).unwrap_or(0) / 64 + 1], count: 0 }
    }

    /// Makes room for numbers up to `last`.
    pub(crate) fn grow(&mut self, last: i64) {
        let words = usize::try_from(last).unwrap_or(0) / 64 + 1;
        self.words.resize(words.max(self.words.len()), 0);
    }

    /// The set of these words' bits.
    pub(crate) fn of(words: Vec<u64>) -> Self {
        let count = words.iter().map(|word| word.count_ones() as usize).sum();
        Self { words, count }
    }

    /// Keeps the members for which `keep` holds. `keep` is asked for every number of a word that has a member.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(usize) -> bool) {
        self.count = 0;
        for (index, word) in self.words.iter_mut().enumerate() {
            if *word == 0 {
                continue;
            }
            let mut kept = 0;
            for bit in 0..64 {
                kept |= u64::from(keep(index * 64 + bit)) << bit;
            }
            *word &= kept;
            self.count += word.count_ones() as usize;
        }
    }

    /// Keeps what is a member of the other as well.
    pub(crate) fn intersect(&mut self, other: &Self) {
        for (index, word) in self.words.iter_mut().enumerate() {
            *word &= other.words.get(index).copied().unwrap_or(0);
        }
        self.count = self.words.iter().map(|word| word.count_ones() as usize).sum();
    }

    /// How many members are also among these bits.
    pub(crate) fn common(&self, words: &[u64]) -> usize {
        self.words.iter().zip(words).map(|(word, other)| (word & other).count_ones() as usize).sum()
    }

    pub(crate) fn remove(&mut self, number: i64) {
        let Ok(number) = usize::try_from(number) else { return };
        if let Some(word) = self.words.get_mut(number / 64) {
            let bit = 1 << (number % 64);
            self.count -= usize::from(*word & bit != 0);
            *word &= !bit;
        }
    }

    pub(crate) fn add(&mut self, number: i64) {
        let Ok(number) = usize::try_from(number) else { return };
        if let Some(word) = self.words.get_mut(number / 64) {
            let bit = 1 << (number % 64);
            self.count += usize::from(*word & bit == 0);
            *word |= bit;
        }
    }

    pub(crate) fn has(&self, number: i64) -> bool {
        usize::try_from(number)
            .is_ok_and(|number| self.words.get(number / 64).is_some_and(|word| word & (1 << (number % 64)) != 0))
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The members, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = i64> {
        self.words.iter().zip(0_i64..).flat_map(|(word, index)| {
            let rest = std::iter::successors(Some(*word), |rest| Some(rest & rest.wrapping_sub(1)));
            rest.take_while(|rest| *rest != 0).map(move |rest| index * 64 + i64::from(rest.trailing_zeros()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Bits;

    #[test]
    fn only_what_was_added_is_in_it() {
        let mut bits = Bits::up_to(130);
        for number in [0, 63, 64, 130, 130, -1, 10_000] {
            bits.add(number);
        }
        let members: Vec<i64> = (-2..200).filter(|number| bits.has(*number)).collect();
        assert_eq!((&members, bits.len()), (&vec![0, 63, 64, 130], 4));
        assert_eq!(bits.iter().collect::<Vec<_>>(), members);
    }
}
