//! How many slots a bucket is divided into: the six widths, as types for the code and as numbers for its users.

use std::fmt::Debug;

use super::kind::Kind;
use super::offset::{OFFSET_T6, OFFSET_T10};

/// Slots in a 64-bit bucket. With fewer slots, each has more bits, and there are fewer false positives.
///
/// The rate is the chance that a key never inserted is found, at full load in a set that has not grown:
/// `2n * 2^-(T + t)`, for 2n slots compared and T + t bits of tag and tail in each. Bytes a key: the length of a file
/// created for 50 million keys, divided by 50 million.
///
/// | slots | bits a slot | false positives | bytes a key |
/// |---|---|---|---|
/// | 2 | 32 | 9.3e-10 | 5.01 |
/// | 3 | 21 | 2.9e-6 | 2.97 |
/// | 4 | 16 | 0.012 % | 2.16 |
/// | 5 | 12 | 0.24 % | 1.70 |
/// | 6 | 10 | 1.2 % | 1.40 |
/// | 7 | 9 | 2.7 % | 1.20 |
///
/// A counting filter has twice the rate in each row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SlotsPerBucket {
    /// 32 bits each.
    Two = 2,
    /// 21 bits each.
    Three = 3,
    /// 16 bits each: the default.
    Four = 4,
    /// 12 bits each.
    Five = 5,
    /// 10 bits each.
    Six = 6,
    /// 9 bits each.
    Seven = 7,
}

#[cfg(feature = "serde")]
impl serde::Serialize for SlotsPerBucket {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u32(self.get())
    }
}

impl SlotsPerBucket {
    /// All values, the widest slots first.
    pub const ALL: [Self; 6] = [Self::Two, Self::Three, Self::Four, Self::Five, Self::Six, Self::Seven];

    /// The number, 2 to 7.
    pub const fn get(self) -> u32 {
        self as u32
    }

    /// The value for a number of slots; `None` unless it is 2 to 7.
    pub fn new(slots: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|candidate| candidate.get() == slots)
    }

    /// The highest number that [`Lookup::count`](crate::Lookup::count) returns. It stands for that many copies or more:
    /// 1,024 for 2 slots, 523,266 for 3, 61,568 for 4, and more than a million for 5 to 7.
    ///
    /// It is twice the highest count of a group: `1 + D + D^2 + ...` with n terms, for the highest digit D
    /// (`format-spec/README.md`, section 4.2).
    pub const fn highest_count(self) -> u32 {
        with_width!(self, W => 2 * W::MOST_COPIES)
    }

    /// W - T - 1: the bits of the tail of a fresh entry, in a marked filter that does not forget.
    #[cfg(test)]
    pub(crate) const fn fresh_tail_bits(self) -> u32 {
        with_width!(self, W => W::TAIL_BITS)
    }

    /// T: the bits of a slot that choose the second bucket and never change.
    pub(crate) const fn tag_bits(self) -> u32 {
        with_width!(self, W => W::TAG_BITS)
    }
}

/// The width of a filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AnyWidth {
    pub(crate) shape: Shape,
    /// Whether a marker ends the tail of each entry. A set or a forgetting filter has none before it first doubles.
    pub(crate) is_marked: bool,
}

/// How a bucket is divided: in one of the six ways of sets and counting filters, or in one of the ways of forgetting
/// filters, which are named after n and a.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    Two,
    Three,
    Four,
    Five,
    Six,
    Seven,
    Four2,
    Four3,
    Three4,
    Two4,
}

impl From<SlotsPerBucket> for Shape {
    fn from(slots: SlotsPerBucket) -> Self {
        match slots {
            SlotsPerBucket::Two => Self::Two,
            SlotsPerBucket::Three => Self::Three,
            SlotsPerBucket::Four => Self::Four,
            SlotsPerBucket::Five => Self::Five,
            SlotsPerBucket::Six => Self::Six,
            SlotsPerBucket::Seven => Self::Seven,
        }
    }
}

impl Shape {
    /// The shapes of forgetting filters, the fewest bytes a key first, and then the lowest rate.
    const FORGETTING: [Self; 4] = [Self::Four2, Self::Four3, Self::Three4, Self::Two4];
}

/// The marked width, for a filter that does not forget.
impl From<SlotsPerBucket> for AnyWidth {
    fn from(slots: SlotsPerBucket) -> Self {
        Self { shape: slots.into(), is_marked: true }
    }
}

impl AnyWidth {
    /// The widths of new forgetting filters, the fewest bytes a key first, and then the lowest rate.
    pub(crate) const FORGETTING: [Self; 4] = {
        let [one, two, three, four] = Shape::FORGETTING;
        [Self::unmarked(one), Self::unmarked(two), Self::unmarked(three), Self::unmarked(four)]
    };

    const fn unmarked(shape: Shape) -> Self {
        Self { shape, is_marked: false }
    }

    /// The width of a new set or counting filter. Counting filters are marked from the beginning: an unmarked slot could
    /// look like a digit.
    pub(crate) fn of_new(slots: SlotsPerBucket, kind: Kind) -> Self {
        Self { shape: slots.into(), is_marked: kind == Kind::Counting }
    }

    /// The unmarked width of a forgetting filter with n slots and a bits of expiry; `None` if no such width exists.
    pub(crate) fn forgetting(slots: SlotsPerBucket, expiry_bits: u32) -> Option<Self> {
        let is_it = |width: &Self| width.slots() == slots && width.expiry_bits() == expiry_bits;
        Self::FORGETTING.into_iter().find(is_it)
    }

    /// The width of the same filter after all its slots were marked.
    pub(crate) const fn marked(self) -> Self {
        Self { is_marked: true, ..self }
    }

    pub(crate) const fn slots(self) -> SlotsPerBucket {
        match self.shape {
            Shape::Two | Shape::Two4 => SlotsPerBucket::Two,
            Shape::Three | Shape::Three4 => SlotsPerBucket::Three,
            Shape::Four | Shape::Four2 | Shape::Four3 => SlotsPerBucket::Four,
            Shape::Five => SlotsPerBucket::Five,
            Shape::Six => SlotsPerBucket::Six,
            Shape::Seven => SlotsPerBucket::Seven,
        }
    }

    /// a: the bits of a slot that say when its entry expires; 0 unless the filter forgets.
    pub(crate) const fn expiry_bits(self) -> u32 {
        with_any_width!(marked self, W => W::EXPIRY_BITS)
    }

    /// The bits of the tail of a fresh entry: W - a - T - 1, and one more without a marker.
    pub(crate) const fn fresh_tail_bits(self) -> u32 {
        with_any_width!(self, W => W::TAIL_BITS)
    }
}

/// Length of the table of entries by tail length. The longest tail, of two slots without markers, has 22 bits.
pub(crate) const TAIL_LENGTHS: usize = 23;

/// The numbers of a width, and the masks that follow from them.
///
/// Per lane of n = 4: `ones` is `0x0001`, `high` `0x8000`, `body` `0x7fff`, `tail_top` `0x0200`, `tail_body` `0x01ff`,
/// `entry` `0x83ff`.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// n, the slots in a bucket.
    pub(super) slots: u32,
    /// W, the bits of a slot.
    pub(super) bits: u32,
    /// T, the bits of a tag.
    pub(super) tag_bits: u32,
    /// a, the lowest bits of a slot, which say when its entry expires; 0 unless the filter forgets.
    pub(super) expiry_bits: u32,
    /// Whether a marker ends the tail of each entry.
    pub(super) is_marked: bool,
    /// The bits of a fresh tail.
    pub(super) tail_bits: u32,
    /// D, the highest digit.
    pub(super) highest_digit: u32,
    /// The highest count of a group.
    pub(super) most_copies: u32,
    /// The lowest bit of each lane. Multiplied by a slot, it gives that slot in every lane.
    pub(super) ones: u64,
    /// For each of the 2^T tags, the exclusive or of the indices of an entry's two buckets.
    pub(super) offsets: &'static [u16],
}

impl Numbers {
    const fn of<W: Width>() -> Self {
        let mut ones = 0;
        let mut lane = 0;
        while lane < W::SLOTS {
            ones |= 1 << (lane * W::BITS);
            lane += 1;
        }
        Self {
            slots: W::SLOTS,
            bits: W::BITS,
            tag_bits: W::TAG_BITS,
            expiry_bits: W::EXPIRY_BITS,
            is_marked: W::IS_MARKED,
            tail_bits: W::TAIL_BITS,
            highest_digit: W::HIGHEST_DIGIT,
            most_copies: W::MOST_COPIES,
            ones,
            offsets: W::OFFSETS,
        }
    }

    /// The expiry bits of a slot.
    #[inline(always)]
    pub(super) const fn expiry(&self) -> u32 {
        (1 << self.expiry_bits) - 1
    }

    /// The highest bit of each lane.
    #[inline(always)]
    pub(super) const fn high(&self) -> u64 {
        self.ones << (self.bits - 1)
    }

    /// All bits of each lane but the highest.
    #[inline(always)]
    pub(super) const fn body(&self) -> u64 {
        self.high() - self.ones
    }

    /// The number of the highest bit below the tag in its lane: the first bit of the tail, unless the entry is void.
    #[inline(always)]
    pub(super) const fn tail_top_at(&self) -> u32 {
        self.bits - self.tag_bits - 1
    }

    /// The bit at `tail_top_at`, in each lane.
    #[inline(always)]
    pub(super) const fn tail_top(&self) -> u64 {
        self.ones << self.tail_top_at()
    }

    /// All bits of each lane below `tail_top`, and above the expiry bits.
    #[inline(always)]
    pub(super) const fn tail_body(&self) -> u64 {
        self.tail_top() - self.lowest()
    }

    /// Every bit that belongs to a lane.
    #[inline(always)]
    pub(super) const fn lanes(&self) -> u64 {
        self.high() | self.body()
    }

    /// The bits of each lane that are all 0 only in empty slots and in digits: the highest bit, and all bits below the
    /// tag except the expiry bits. Without markers: all bits except the expiry bits, which are all 0 in empty slots
    /// alone.
    #[inline(always)]
    pub(super) const fn entry(&self) -> u64 {
        let below = self.tail_top() | self.tail_body();
        if self.is_marked { self.high() | below } else { self.tags() | below }
    }

    /// The tags of all lanes.
    #[inline(always)]
    pub(super) const fn tags(&self) -> u64 {
        self.lanes() - (self.tail_top() | (self.tail_top() - self.ones))
    }

    /// The bit of each lane that [`Bucket::ends`](super::Bucket) sets for an entry with a tail of this length; 0 if no
    /// such entries exist.
    pub(super) const fn end_of(&self, tail: u32) -> u64 {
        if self.is_marked {
            self.tail_top() >> tail
        } else if tail == self.tail_bits {
            self.high()
        } else {
            0
        }
    }

    /// The lowest bit of each lane's fingerprint: above the expiry bits.
    #[inline(always)]
    pub(super) const fn lowest(&self) -> u64 {
        self.ones << self.expiry_bits
    }
}

/// A width, as the type parameter of slots and buckets: a type of its own ([`Width`]), whose numbers the compiler knows;
/// or [`AnyLayout`], whose code is compiled once for all widths.
pub(crate) trait Layout: Copy + Eq + Debug {
    fn numbers(self) -> &'static Numbers;
}

/// Any width, for code that runs seldom. Lists of groups that carry it are three times as long: inserts of copies, which
/// count copies in such lists, took 1.1 to 1.3 times as long with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnyLayout(&'static Numbers);

/// Slots and buckets are compared only with others of their own width, so any two are equal.
impl PartialEq for AnyLayout {
    #[inline(always)]
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for AnyLayout {}

impl AnyLayout {
    pub(super) fn of(width: impl Layout) -> Self {
        Self(width.numbers())
    }
}

impl Layout for AnyLayout {
    #[inline(always)]
    fn numbers(self) -> &'static Numbers {
        self.0
    }
}

impl<W: Width> Layout for W {
    #[inline(always)]
    fn numbers(self) -> &'static Numbers {
        W::NUMBERS
    }
}

/// How a bucket is divided. In every real width, `INDEX_BITS` is 13 and `BITS` follows from `SLOTS`; tests choose
/// smaller numbers, so that they can try all slots.
pub(crate) trait Width: Copy + Eq + Debug + 'static {
    /// The only value.
    const VALUE: Self;
    /// n, the slots in a bucket.
    const SLOTS: u32;
    /// T, the bits of a tag.
    const TAG_BITS: u32;
    /// a, the lowest bits of a slot, which say when its entry expires; 0 unless the filter forgets.
    const EXPIRY_BITS: u32 = 0;
    /// Whether a marker ends the tail of each entry.
    const IS_MARKED: bool = true;
    /// The width of the same filter after it was marked.
    type Marked: Width<Marked = Self::Marked>;
    /// W, the bits of a slot.
    const BITS: u32 = 64 / Self::SLOTS;
    /// Buckets of a region, as a power of two.
    const INDEX_BITS: u32 = 13;
    /// For each of the 2^T tags, the exclusive or of the indices of an entry's two buckets.
    const OFFSETS: &'static [u16];

    /// The bits of a fresh tail.
    const TAIL_BITS: u32 = Self::BITS - Self::EXPIRY_BITS - Self::TAG_BITS - Self::IS_MARKED as u32;
    /// D, the highest digit: a slot is a digit if its tag is 1 to D and all its other bits are 0.
    const HIGHEST_DIGIT: u32 = (1 << (Self::TAG_BITS - 1)) - 1;
    /// The highest count of a group: it fills its bucket, and all its digits are D.
    ///
    /// n = 4: `1 + 31 + 31^2 + 31^3` = 30,784.
    const MOST_COPIES: u32 = {
        let (mut most, mut weight, mut lane) = (1, 1, 1);
        while lane < Self::SLOTS {
            weight *= Self::HIGHEST_DIGIT;
            most += weight;
            lane += 1;
        }
        most
    };
    /// All these numbers as a value.
    const NUMBERS: &'static Numbers = &Numbers::of::<Self>();
}

macro_rules! widths {
    ($($name:ident: $slots:literal, $tag:literal, $offsets:expr, $expiry:literal;)*) => {
        $(
            #[derive(Clone, Copy, PartialEq, Eq, Debug)]
            pub(crate) struct $name;
            impl Width for $name {
                const VALUE: Self = Self;
                const SLOTS: u32 = $slots;
                const TAG_BITS: u32 = $tag;
                const EXPIRY_BITS: u32 = $expiry;
                type Marked = Self;
                const OFFSETS: &'static [u16] = $offsets;
            }
            const _: () = assert!($name::OFFSETS.len() == 1 << $tag && $name::TAIL_BITS >= 2);
            const _: () = assert!($name::HIGHEST_DIGIT >= 1 && $name::MOST_COPIES < 1 << 31);
        )*
    };
}

widths! {
    Two: 2, 10, &OFFSET_T10, 0;
    Three: 3, 10, &OFFSET_T10, 0;
    Four: 4, 6, &OFFSET_T6, 0;
    Five: 5, 6, &OFFSET_T6, 0;
    Six: 6, 6, &OFFSET_T6, 0;
    Seven: 7, 6, &OFFSET_T6, 0;
    Four2: 4, 6, &OFFSET_T6, 2;
    Four3: 4, 6, &OFFSET_T6, 3;
    Three4: 3, 10, &OFFSET_T10, 4;
    Two4: 2, 10, &OFFSET_T10, 4;
}

/// The same width without markers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unmarked<W>(W);

impl<W: Width> Width for Unmarked<W> {
    const VALUE: Self = Self(W::VALUE);
    const SLOTS: u32 = W::SLOTS;
    const TAG_BITS: u32 = W::TAG_BITS;
    const EXPIRY_BITS: u32 = W::EXPIRY_BITS;
    const IS_MARKED: bool = false;
    type Marked = W::Marked;
    const BITS: u32 = W::BITS;
    const INDEX_BITS: u32 = W::INDEX_BITS;
    const OFFSETS: &'static [u16] = W::OFFSETS;
}

/// Runs one expression with `$W` bound to the width that a [`SlotsPerBucket`](crate::SlotsPerBucket) names.
macro_rules! with_width {
    ($slots:expr, $W:ident => $body:expr) => {
        match $slots {
            $crate::SlotsPerBucket::Two => {
                type $W = $crate::cuckoo::Two;
                $body
            }
            $crate::SlotsPerBucket::Three => {
                type $W = $crate::cuckoo::Three;
                $body
            }
            $crate::SlotsPerBucket::Four => {
                type $W = $crate::cuckoo::Four;
                $body
            }
            $crate::SlotsPerBucket::Five => {
                type $W = $crate::cuckoo::Five;
                $body
            }
            $crate::SlotsPerBucket::Six => {
                type $W = $crate::cuckoo::Six;
                $body
            }
            $crate::SlotsPerBucket::Seven => {
                type $W = $crate::cuckoo::Seven;
                $body
            }
        }
    };
}
pub(crate) use with_width;

/// Like `with_width!`, for an [`AnyWidth`](crate::cuckoo::AnyWidth). `plain` or `forgetting` restricts it to such widths,
/// and other widths yield `$else`. `marked` is for a filter that is known to be marked.
macro_rules! with_any_width {
    (plain $width:expr, $W:ident => $body:expr, $else:expr) => {
        $crate::cuckoo::with_any_width!($width, $W => $body; Two Three Four Five Six Seven; _ => $else)
    };
    (forgetting $width:expr, $W:ident => $body:expr, $else:expr) => {
        $crate::cuckoo::with_any_width!($width, $W => $body; Four2 Four3 Three4 Two4; _ => $else)
    };
    (marked $width:expr, $W:ident => $body:expr) => {
        $crate::cuckoo::with_any_width!(marked $width, $W => $body;
            Two Three Four Five Six Seven Four2 Four3 Three4 Two4)
    };
    (marked $width:expr, $W:ident => $body:expr; $($name:ident)*) => {
        match $width.shape {
            $($crate::cuckoo::Shape::$name => {
                type $W = $crate::cuckoo::$name;
                $body
            })*
        }
    };
    ($width:expr, $W:ident => $body:expr) => {
        $crate::cuckoo::with_any_width!($width, $W => $body;
            Two Three Four Five Six Seven Four2 Four3 Three4 Two4;)
    };
    ($width:expr, $W:ident => $body:expr; $($name:ident)*; $($others:tt)*) => {
        match $width {
            $($crate::cuckoo::AnyWidth { shape: $crate::cuckoo::Shape::$name, is_marked: true } => {
                type $W = $crate::cuckoo::$name;
                $body
            }
            $crate::cuckoo::AnyWidth { shape: $crate::cuckoo::Shape::$name, is_marked: false } => {
                type $W = $crate::cuckoo::Unmarked<$crate::cuckoo::$name>;
                $body
            })*
            $($others)*
        }
    };
}
pub(crate) use with_any_width;
