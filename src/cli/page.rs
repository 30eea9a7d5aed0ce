//! The page for browsers, which builds with the feature `page` contain.

/// The page. `None` in builds without it.
pub(super) const PAGE: Option<&str> = {
    #[cfg(feature = "page")]
    {
        Some(include_str!(env!("ROLLPLAN_PAGE_FILE")))
    }
    #[cfg(not(feature = "page"))]
    {
        None
    }
};

/// How to get the page, for builds without it.
pub(super) const HINT: &str = "this build does not contain the page: those of releases do, and docs/guides/page.md describes how to build it";

/// What a service without the page serves instead.
pub(super) const HINT_PAGE: &str = "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>rollplan</title>\n\
    <p>This build does not contain the page: those of releases do, and docs/guides/page.md describes how to build it.</p></html>\n";
