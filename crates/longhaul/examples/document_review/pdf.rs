//! A contract of thirty pages as a PDF file, written object by object: real enough for any reader, and for the parser.
//!
//! Invariant: each page's text is what [`pages`] says, in Helvetica, but for the Chinese annex, whose font is the reader's
//! own (`STSong-Light`, encoded in UCS-2).

use std::fmt::Write as _;

/// Pages of the contract.
pub(crate) const PAGES: usize = 30;

/// Clauses in which somebody should look twice, by page.
const RISKS: [(usize, &str); 6] = [
    (4, "4.2 The Customer shall pay a penalty of 15 percent of the annual fee for each week of late payment."),
    (9, "9.1 The liability of the Customer under this agreement is unlimited, whatever the cause."),
    (13, "13.4 This agreement renews itself by five years unless terminated 18 months before its end."),
    (17, "17.3 The Supplier may change prices at any time by a notice published on its web site."),
    (22, "22.5 Personal data may be passed on to third parties without the Customer's prior consent."),
    (27, "27.2 The liability of the Supplier is limited to 1 percent of the fees paid in the last month."),
];

/// The annex in Chinese: its second sentence contradicts clause 27.2.
const ANNEX: [&str; 4] = [
    "附件三 中文补充条款",
    "第七条 本协议的中文版本与英文版本具有同等效力。",
    "第八条 供应商的责任不受限制，包括间接损失。",
    "第九条 争议由上海仲裁委员会仲裁。",
];

/// The lines of each page.
pub(crate) fn pages() -> Vec<Vec<String>> {
    let mut pages = Vec::with_capacity(PAGES);
    for page in 1..PAGES {
        let mut lines = vec![format!("Clause {page}. {}", title(page)), String::new()];
        for part in 1..=3 {
            lines.push(format!("{page}.{part} {}", filling(page, part)));
            lines.push(String::new());
        }
        if let Some((_, risk)) = RISKS.iter().find(|(at, _)| *at == page) {
            lines.push((*risk).to_owned());
        }
        pages.push(lines);
    }
    pages.push(ANNEX.map(str::to_owned).to_vec());
    pages
}

fn title(page: usize) -> &'static str {
    const TITLES: [&str; 8] =
        ["Definitions", "Scope of supply", "Delivery", "Payment", "Quality", "Records", "Cooperation", "General terms"];
    TITLES[page % TITLES.len()]
}

fn filling(page: usize, part: usize) -> String {
    let what = ["deliver the goods named in the order", "keep records of each delivery", "name a contact person"];
    let due = 5 + (page * 3 + part) % 25;
    format!("The parties shall {} within {due} working days of the order.", what[(page + part) % what.len()])
}

/// The file.
pub(crate) fn file() -> Vec<u8> {
    let pages = pages();
    // 1 catalogue, 2 pages, 3 Helvetica, 4 and 5 the Chinese font, 6 information; then a page and its content each.
    let kids: Vec<String> = (0..pages.len()).map(|n| format!("{} 0 R", 7 + 2 * n)).collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!("<< /Type /Pages /Kids [{}] /Count {} >>", kids.join(" "), pages.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_owned(),
        "<< /Type /Font /Subtype /Type0 /BaseFont /STSong-Light /Encoding /UniGB-UCS2-H /DescendantFonts [5 0 R] >>"
            .to_owned(),
        "<< /Type /Font /Subtype /CIDFontType0 /BaseFont /STSong-Light /CIDSystemInfo << /Registry (Adobe) /Ordering \
         (GB1) /Supplement 2 >> /DW 1000 >>"
            .to_owned(),
        "<< /Title (Supply agreement) /Producer (longhaul example) >>".to_owned(),
    ];
    for (n, lines) in pages.iter().enumerate() {
        let content = content(lines);
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {} 0 R /Resources << /Font << /F1 3 0 R \
             /F2 4 0 R >> >> >>",
            8 + 2 * n
        ));
        objects.push(format!("<< /Length {} >>\nstream\n{content}endstream", content.len()));
    }
    assemble(&objects)
}

/// One page: a line of text each 16 points.
fn content(lines: &[String]) -> String {
    let mut content = String::from("BT\n16 TL\n1 0 0 1 56 780 Tm\n");
    for line in lines {
        if line.is_ascii() {
            let text = line.replace('\\', "\\\\").replace('(', "\\(").replace(')', "\\)");
            let _ = write!(content, "/F1 10 Tf\n({text}) Tj\nT*\n");
        } else {
            let codes: String = line.encode_utf16().map(|unit| format!("{unit:04X}")).collect();
            let _ = write!(content, "/F2 12 Tf\n<{codes}> Tj\nT*\n");
        }
    }
    content.push_str("ET\n");
    content
}

fn assemble(objects: &[String]) -> Vec<u8> {
    let mut file = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n".to_vec();
    let mut offsets = Vec::with_capacity(objects.len());
    for (n, object) in objects.iter().enumerate() {
        offsets.push(file.len());
        file.extend(format!("{} 0 obj\n{object}\nendobj\n", n + 1).bytes());
    }
    let start = file.len();
    let mut table = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for offset in offsets {
        let _ = writeln!(table, "{offset:010} 00000 n ");
    }
    let _ = write!(
        table,
        "trailer\n<< /Size {} /Root 1 0 R /Info 6 0 R >>\nstartxref\n{start}\n%%EOF\n",
        objects.len() + 1
    );
    file.extend(table.bytes());
    file
}
