//! Options by name and value.

use std::ffi::c_char;
use std::time::Duration;

use core::{Growth, Kind, OnDamage, Options, SlotsPerBucket, Verify};

use crate::error::{Failure, Outcome, gowk_error, guarded};
use crate::handle::{borrow_mut, take, text};

/// How a filter or store is created and opened. One thread at a time may set an option; calls that open only read it.
pub struct gowk_options(pub(crate) Options);

/// Options with their defaults. Never NULL. The caller frees them with `gowk_options_free`.
#[unsafe(no_mangle)]
pub extern "C" fn gowk_options_new() -> *mut gowk_options {
    Box::into_raw(Box::new(gowk_options(Options::new())))
}

/// Sets one option, both name and value as text. Returns 0, or GOWK_INVALID for an unknown name or a value that the
/// option does not take. Whether the values fit together is checked when a filter is created or opened.
///
///     name                     value                              default
///     for creation; an existing filter keeps its own (see below):
///     capacity                 keys, 1 or more                    1000000
///     false_positive_rate      above 0, below 1                   0.001
///     kind                     set, counting or forgetting        set
///     slots_per_bucket         2 to 7, instead of a rate
///     seed                     a number below 2^64                random
///     growth                   auto or never                      auto
///     max_file_size            bytes                              no limit
///     max_false_positive_rate  above 0, below 1                   no limit
///     forget_after             seconds, for a forgetting filter
///     forget_within            seconds                            half of forget_after
///     refresh                  true or false                      false
///     keep_newest              keys, for a forgetting filter
///     auto_vacuum              versions and seconds, as "10,86400"  never
///     force                    true: replace an existing filter   false
///     for opening as well:
///     threads                  for batches, 1 or more             1
///     wait                     seconds, for other writers         0
///     verify                   first_touch, eager or never        first_touch
///     on_damage                error or present                   error
///     sealed                   true or false                      false
///     clock_is_right           true or false                      false
///     void_growth              true or false                      false
///
/// Seconds may have decimals. The documentation of the Rust type `Options` has a paragraph on each.
///
/// Options for creation do not change an existing filter. Opening it to write fails if one that was set does not fit:
/// with GOWK_KIND for another "kind"; with GOWK_INVALID for a "false_positive_rate" below the filter's, or other times
/// or numbers of a forgetting filter. The others are ignored. Opening a store checks the same but the rate; opening a
/// reader checks "kind" alone.
///
/// "forget_after" and "keep_newest" make the kind forgetting; with "refresh" the time counts from when a key was last
/// inserted. "on_damage" says what readers answer at a damaged page: an error, or 1. "sealed" is for reading a file
/// that nobody writes to any more: nothing is locked or written. "clock_is_right" accepts a clock that would fail with
/// GOWK_CLOCK. "auto_vacuum" is for creating a store: its commits vacuum, and leave so many of the newest versions, and
/// each version for so long after the next one was made. "void_growth" lets a filter double although more than half of
/// its entries would be copied to both sides.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_options_set(
    options: *mut gowk_options,
    name: *const c_char,
    value: *const c_char,
    error: *mut gowk_error,
) -> i64 {
    guarded(error, || {
        // SAFETY: promised by the caller.
        let (options, name, value) =
            unsafe { (borrow_mut(options, "options")?, text(name, "the name")?, text(value, "the value")?) };
        set(&mut options.0, name, value)
    })
}

/// Frees options; does nothing for NULL. What was opened with them stays open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gowk_options_free(options: *mut gowk_options) {
    // SAFETY: promised by the caller.
    drop(unsafe { take(options) });
}

/// The options of a call; NULL means the defaults.
///
/// # Safety
///
/// As for [`borrow`](crate::handle::borrow).
pub(crate) unsafe fn or_default(options: *const gowk_options) -> Options {
    // SAFETY: promised by the caller.
    unsafe { options.as_ref() }.map_or_else(Options::new, |options| options.0.clone())
}

fn set(options: &mut Options, name: &str, value: &str) -> Outcome {
    let old = std::mem::take(options);
    // A failure leaves the old options.
    let kept = old.clone();
    match with(old, name, value) {
        Ok(new) => {
            *options = new;
            Ok(0)
        }
        Err(failure) => {
            *options = kept;
            Err(failure)
        }
    }
}

fn with(options: Options, name: &str, value: &str) -> Result<Options, Failure> {
    let wrong = |expected: &str| Failure::invalid(format!("{name} is \"{value}\", but must be {expected}"));
    let number = || value.parse::<u64>().map_err(|_| wrong("a whole number"));
    let rate = || value.parse::<f64>().map_err(|_| wrong("a number above 0 and below 1"));
    let truth = || value.parse::<bool>().map_err(|_| wrong("true or false"));
    let seconds = || {
        let seconds = value.parse::<f64>().ok();
        let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        time.ok_or_else(|| wrong("seconds, 0 or more"))
    };
    Ok(match name {
        "capacity" => options.capacity(number()?),
        "false_positive_rate" => options.false_positive_rate(rate()?),
        "kind" => options.kind(Kind::from_name(value).ok_or_else(|| wrong("set, counting or forgetting"))?),
        "slots_per_bucket" => {
            let slots = value.parse().ok().and_then(SlotsPerBucket::new);
            options.slots_per_bucket(slots.ok_or_else(|| wrong("2 to 7"))?)
        }
        "seed" => options.seed(number()?),
        "growth" => options.growth(match value {
            "auto" => Growth::Auto,
            "never" => Growth::Never,
            _ => return Err(wrong("auto or never")),
        }),
        "max_file_size" => options.max_file_size(number()?),
        "max_false_positive_rate" => options.max_false_positive_rate(rate()?),
        "forget_after" => options.forget_after(seconds()?),
        "forget_within" => options.forget_within(seconds()?),
        "refresh" => options.refresh(truth()?),
        "keep_newest" => options.keep_newest(number()?),
        "auto_vacuum" => {
            let parts = value.split_once(',').and_then(|(keep, grace)| {
                let grace = Duration::try_from_secs_f64(grace.parse().ok()?).ok()?;
                Some((keep.parse().ok()?, grace))
            });
            let (keep, grace) = parts.ok_or_else(|| wrong("versions and seconds, as \"10,86400\""))?;
            options.auto_vacuum(keep, grace)
        }
        "force" => options.force(truth()?),
        "threads" => options.threads(usize::try_from(number()?).unwrap_or(usize::MAX)),
        "wait" => options.wait(seconds()?),
        "verify" => options.verify(match value {
            "first_touch" => Verify::FirstTouch,
            "eager" => Verify::Eager,
            "never" => Verify::Never,
            _ => return Err(wrong("first_touch, eager or never")),
        }),
        "on_damage" => options.on_damage(match value {
            "error" => OnDamage::Error,
            "present" => OnDamage::Present,
            _ => return Err(wrong("error or present")),
        }),
        "sealed" => options.sealed(truth()?),
        "clock_is_right" => options.clock_is_right(truth()?),
        "void_growth" => options.void_growth(truth()?),
        _ => return Err(Failure::invalid(format!("there is no option \"{name}\""))),
    })
}
