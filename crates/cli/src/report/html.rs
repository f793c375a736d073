//! A page that needs no other file: it contains its style, fetches nothing and runs no script.

use std::fmt::Display;

/// Colours by their meaning. Browsers in dark mode get the second set; paper gets the first.
const STYLE: &str = "\
:root{--paper:#fff;--ink:#1d2129;--soft:#5c6470;--rule:#d9dde3;--main:#2f6db5;--other:#b98a2f;--bad:#c0392b;--bar:#eef1f5}\
@media screen and (prefers-color-scheme:dark){:root{--paper:#16191e;--ink:#e6e8eb;--soft:#9aa3af;--rule:#363c45;\
--main:#6ba6e8;--other:#dcb25a;--bad:#f07465;--bar:#22272e}}\
*{box-sizing:border-box}\
body{margin:0 auto;max-width:50rem;padding:2rem 1rem;background:var(--paper);color:var(--ink);\
font:16px/1.5 system-ui,sans-serif}\
h1{font-size:1.5rem;margin:0;overflow-wrap:anywhere}h2{font-size:1.15rem;margin:2.5rem 0 .3rem}p{margin:.3rem 0}\
.soft{color:var(--soft)}.bad{color:var(--bad)}\
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(14rem,1fr));gap:.8rem 1.5rem;margin:1.5rem 0}\
dt{color:var(--soft);font-size:.85rem}dd{margin:0;font-weight:600;overflow-wrap:anywhere}\
figure{margin:.8rem 0}svg{display:block;width:100%;max-width:34rem;height:auto}\
svg text{fill:var(--soft);font:12px system-ui,sans-serif}svg .name{fill:var(--ink)}\
.main{fill:var(--main)}.other{fill:var(--other)}.wrong{fill:var(--bad)}.empty{fill:var(--bar)}\
.rule{stroke:var(--rule);stroke-width:1}.limit{stroke:var(--bad);stroke-width:1.5;stroke-dasharray:5 4}\
.line{stroke:var(--main);stroke-width:2;fill:none}\
table{border-collapse:collapse;width:100%;font-size:.9rem}td,th{text-align:right;padding:.2rem .5rem;\
border-bottom:1px solid var(--rule)}td:first-child,th:first-child{text-align:left}\
@media print{body{max-width:none;padding:0;-webkit-print-color-adjust:exact;print-color-adjust:exact}\
section{break-inside:avoid}}";

/// Text from anywhere, escaped for a page.
pub(super) fn escaped(text: impl Display) -> String {
    let mut escaped = String::new();
    for c in text.to_string().chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // Characters that HTML forbids, or that would reverse the direction of the text.
            c if c.is_control()
                || ('\u{202a}'..='\u{202e}').contains(&c)
                || ('\u{2066}'..='\u{2069}').contains(&c) =>
            {
                escaped.extend(c.escape_default());
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// A page that is being written.
pub(super) struct Page(String);

impl Page {
    pub(super) fn new(title: &str, below: &str) -> Self {
        let (title, below) = (escaped(title), escaped(below));
        Self(format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<p class=\"soft\">{below}</p>\n"
        ))
    }

    /// Adds facts, each a name and a value.
    pub(super) fn facts(&mut self, facts: &[(&str, String)]) {
        self.0.push_str("<dl>\n");
        for (name, value) in facts {
            let (name, value) = (escaped(name), escaped(value));
            self.0 += &format!("<div><dt>{name}</dt><dd>{value}</dd></div>\n");
        }
        self.0.push_str("</dl>\n");
    }

    /// Adds a heading, a description in words, and the picture.
    pub(super) fn picture(&mut self, heading: &str, words: &str, svg: &str) {
        let (heading, words) = (escaped(heading), escaped(words));
        self.0 +=
            &format!("<section>\n<h2>{heading}</h2>\n<p>{words}</p>\n<figure>{svg}</figure>\n</section>\n");
    }

    /// Adds a table to the last section: the names of its columns, and its rows.
    pub(super) fn table(&mut self, names: &[&str], rows: &[Vec<String>]) {
        self.0.push_str("<table>\n<tr>");
        names.iter().for_each(|name| self.0 += &format!("<th>{}</th>", escaped(name)));
        self.0.push_str("</tr>\n");
        for row in rows {
            self.0.push_str("<tr>");
            row.iter().for_each(|cell| self.0 += &format!("<td>{}</td>", escaped(cell)));
            self.0.push_str("</tr>\n");
        }
        self.0.push_str("</table>\n");
    }

    /// Adds a section that has only text.
    pub(super) fn words(&mut self, heading: &str, lines: &[impl Display], bad: bool) {
        let class = if bad { " class=\"bad\"" } else { "" };
        self.0 += &format!("<section>\n<h2>{}</h2>\n", escaped(heading));
        for line in lines {
            self.0 += &format!("<p{class}>{}</p>\n", escaped(line));
        }
        self.0.push_str("</section>\n");
    }

    pub(super) fn end(mut self, foot: &str) -> String {
        self.0 += &format!("<p class=\"soft\"><small>{}</small></p>\n</body>\n</html>\n", escaped(foot));
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        assert_eq!(escaped("<b>&\"'\u{202e}\n"), "&lt;b&gt;&amp;&quot;'\\u{202e}\\n");
        let page = Page::new("<script>", "</style>").end("");
        assert!(!page.contains("<script>") && page.matches("</style>").count() == 1, "{page}");
    }
}
