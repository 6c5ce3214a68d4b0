use tokio::time::Instant;

use domain::ids::Door;

use super::*;

fn place(id: &str) -> Place {
    Place::new(Door::new("d"), id)
}

fn pixels(formula: &str) -> Pixmap {
    Pixmap::decode_png(&draw(formula).unwrap_or_else(|reason| panic!("{formula}: {reason}"))).unwrap()
}

/// The colour of a pixel, without its alpha.
fn at(picture: &Pixmap, x: u32, y: u32) -> (u8, u8, u8, u8) {
    let pixel = picture.pixel(x, y).unwrap().demultiply();
    (pixel.red(), pixel.green(), pixel.blue(), pixel.alpha())
}

#[test]
fn a_formula_is_a_crisp_card_that_shows_on_dark_and_light() {
    let picture = pixels(r"\int_0^1 x^2\,dx = \frac{1}{3}");
    assert!((200..600).contains(&picture.width()) && (100..250).contains(&picture.height()));
    assert_eq!(at(&picture, 0, 0).3, 0, "the corners are transparent");
    let ground = at(&picture, picture.width() / 2, 6);
    assert_eq!(ground.3, 255, "the card has its own background");
    let brightest = picture.pixels().iter().map(|pixel| pixel.demultiply().green()).max();
    assert!(ground.1 < 60 && brightest > Some(230), "light text on a dark background");
}

#[test]
fn own_colours_stand_on_paper() {
    let picture = pixels(r"\color{red}{x} + y");
    assert_eq!(at(&picture, picture.width() / 2, 6), (255, 255, 255, 255));
    assert!(picture.pixels().iter().any(|pixel| (pixel.red(), pixel.green()) == (255, 0)));
}

#[test]
fn long_formulas_shrink_into_bounds_or_are_refused() {
    let picture = pixels(&"x_1 + ".repeat(60));
    assert!((2_000..=WIDTH_MAX).contains(&picture.width()), "{}", picture.width());
    let tall = pixels(&format!(r"\begin{{matrix}}{}\end{{matrix}}", r"x \\ ".repeat(30)));
    assert!((800..=HEIGHT_MAX).contains(&tall.height()), "{}", tall.height());
    assert!(draw(&"x + ".repeat(450)).unwrap_err().contains("too large"));
    let full = pixels(r"\rule{74em}{48em}");
    let area = full.width() * full.height();
    assert!((PIXELS_MAX * 9 / 10..=PIXELS_MAX).contains(&area), "{} x {}", full.width(), full.height());
}

/// Returns a formula that repeats another one; the macros multiply it by ten each.
fn repeated(tens: usize, formula: &str) -> String {
    let mut text = String::new();
    let mut inside = formula.to_owned();
    for name in ["a", "b", "c", "d"].iter().take(tens) {
        text = format!(r"{text}\def\{name}{{{}}}", inside.repeat(10));
        inside = format!(r"\{name}");
    }
    text + &inside
}

#[test]
fn what_takes_too_long_to_draw_is_refused_before_it_is_drawn() {
    let large = r"\rule{0em}{40em}\kern70em";
    for (tens, formula) in [
        (2, r"\rule{74em}{40em}\kern-74em".to_owned()),
        (2, format!(r"\mathrlap{{\boxed{{{large}}}}}")),
        (2, format!(r"\mathrlap{{\colorbox{{red}}{{{large}}}}}")),
        (2, format!(r"\mathrlap{{\cancel{{{large}}}}}")),
        (2, format!(r"\mathrlap{{\phase{{{large}}}}}")),
        (3, r"\mathrlap{\left\{\rule{0em}{40em}\right.}".to_owned()),
        (3, r"\mathrlap{\underline{\kern70em}}".to_owned()),
        (3, r"\mathrlap{\Huge W}".to_owned()),
    ] {
        let repeated = repeated(tens, &formula) + r"\kern74em";
        assert_eq!(draw(&repeated).unwrap_err(), "too much to draw", "{formula}");
        assert!(draw(&(formula.repeat(2) + r"\kern74em")).is_ok(), "{formula}");
    }
    for formula in [r"\mathrlap{\overbrace{\kern70em}}", r"\frac xy", r"\mathrlap{\sqrt x}"] {
        assert_eq!(draw(&repeated(3, &formula.repeat(2))).unwrap_err(), "too much to lay out", "{formula}");
    }
}

#[test]
fn a_page_of_formulas_is_drawn() {
    let row = r"a_{12}^2 & ".repeat(12) + r"x \\ ";
    pixels(&format!(r"\begin{{bmatrix}}{}\end{{bmatrix}}", row.repeat(14)));
    pixels(&format!(r"\begin{{align}}{}\end{{align}}", r"f(x) &= \boxed{\int_0^1 \frac{x^2}{y}} \\ ".repeat(20)));
}

#[test]
fn the_usual_repertoire_can_be_drawn() {
    for formula in [
        "x",
        "a +\nb",
        r"a \\ b",
        r"\begin{align} a &= b \\ c &= d \end{align}",
        r"\begin{equation} E = mc^2 \end{equation}",
        r"\begin{cases} 1 & x > 0 \\ 0 & \text{otherwise} \end{cases}",
        r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}",
        r"\lim_{n \to \infty} \left( 1 + \frac{1}{n} \right)^n = e",
        r"\mathbb{R} \subset \mathbb{C}, \mathcal{O}(n \log n), \mathfrak{g}, \mathrm{d}x",
        r"\hat{x} \vec{v} \overline{ab} \underbrace{a+b}_{c} \xrightarrow{f}",
        r"\forall \epsilon > 0\; \exists \delta : |x - a| < \delta \implies |f(x) - L| < \epsilon",
        r"\ce{2H2 + O2 -> 2H2O}",
        r"\def\foo#1{#1^2} \foo{x}",
        r"\newcommand{\RR}{\mathbb{R}} x \in \RR",
    ] {
        pixels(formula);
    }
}

/// Input that a hostile or confused model may send.
const ODD: &[&str] = &[
    r"\input{/etc/passwd}",
    r"\include{/etc/passwd}",
    r"\openin5=/etc/passwd \read5 to\x \x",
    r"\write18{touch /tmp/staffai-was-here}",
    r"\immediate\write18{id}",
    r"\includegraphics{https://example.com/a.png}",
    r"\includegraphics[width=100em]{/etc/passwd}",
    r"\href{javascript:alert(1)}{x}",
    r"\url{https://example.com}",
    r"\htmlData{a=b}{x}",
    r"\htmlStyle{font-size: 1000em}{x}",
    r"\catcode`\@=11",
    r"\def\a{\a}\a",
    r"\def\a{\b}\def\b{\a}\a",
    r"\def\a{x\a}\a",
    r"\def\a{\a\a}\a",
    r"\let\a=\a \a",
    r"\def\a#1{#1#1}\a{\a{\a{\a{\a{\a{\a{\a{\a{\a{\a{\a{\a{\a{\a{\a{x}}}}}}}}}}}}}}}}",
    r"\loop x\iftrue\repeat",
    r"\rule{1000em}{1000em}",
    r"\rule{1e30em}{1em}",
    r"\rule{-5em}{-5em}",
    r"\rule{0.001em}{99999em}",
    r"\hspace{1e300em}x",
    r"\raisebox{1e20em}{x}",
    r"\kern-1000em x",
    r"x\kern1e308em\kern1e308em x",
    r"\Huge\Huge\Huge x",
    r"\char`\x \char65535 \char1114112",
    r"\unicode{x4E2D}",
    r"\text{中文 Привет 😀 مرحبا}",
    "中 + 国",
    "😀^{😀}",
    "\u{0}\u{1}\u{7f}",
    "\u{202e}\u{200b}\u{feff}",
    "%",
    "% only a comment",
    r"\",
    "$",
    "$$",
    "{",
    "}",
    "^",
    "_",
    "&",
    "#",
    "~",
    "^^",
    "x^1^2",
    r"\\",
    r"\frac",
    r"\sqrt",
    r"\left(",
    r"\right)",
    r"\begin{",
    r"\begin{matrix}",
    r"\end{matrix}",
    r"\begin{a}\end{a}",
    r"\begin{array}{c|c:c}x\end{array}",
    r"\quad",
    r"\phantom{x}",
    "",
    " ",
    r"\begin{array}{:c:}\rule{1em}{1000000000em}\end{array}",
];

/// Input that is nested too deeply.
fn deep() -> Vec<String> {
    let pairs = [
        ("{", "}"),
        (r"\sqrt{", "}"),
        (r"\frac{1}{", "}"),
        (r"x^{", "}"),
        (r"\left(", r"\right)"),
        (r"\pmb{", "}"),
        (r"\text{", "}"),
        (r"\overline{", "}"),
        (r"\begin{matrix}", r"\end{matrix}"),
        (r"\boxed{", "}"),
    ];
    let depths = [16, 31, 33, 300, 100_000];
    let nested = |(open, close): (&str, &str), depth| format!("{}x{}", open.repeat(depth), close.repeat(depth));
    depths.into_iter().flat_map(|depth| pairs.map(|pair| nested(pair, depth))).collect()
}

/// Input with far too many items.
fn much() -> Vec<String> {
    let words = |layer: &str, inside: &str| format!(r"\def\{layer}{{{}}}", inside.repeat(100));
    vec![
        "x\u{301}".to_owned() + &"\u{301}".repeat(1_900),
        format!(r"\begin{{matrix}}{}\end{{matrix}}", "x&".repeat(900)),
        format!(r"\begin{{matrix}}{}\end{{matrix}}", r"x\\".repeat(600)),
        format!(r"\begin{{array}}{{{}}}x\end{{array}}", "c|".repeat(900)),
        format!(r"\begin{{array}}{{c}}{}\end{{array}}", r"\hline ".repeat(250)),
        r"\dots".repeat(390),
        r"\\".repeat(990),
        "x".repeat(2_000),
        "x".repeat(1_000_000),
        r"\sum".repeat(495),
        r"\ce{".to_owned() + &"H2O + ".repeat(300) + "}",
        // Each layer draws its inside twice.
        r"\pmb{".repeat(15) + &"x".repeat(40) + &"}".repeat(15),
        // Each layer is its inside a hundred times.
        format!(r"{}{}{}\c", words("a", "x"), words("b", r"\a"), words("c", r"\b")),
        format!(r"{}x{}", r"\left(\frac{".repeat(14), r"}{x}\right)".repeat(14)),
        r"\sqrt[3]{\frac{\hat{x}}{\vec{y}}}".repeat(60),
    ]
}

#[test]
fn hostile_formulas_end_in_time_and_bounds() {
    let mut slowest = (Duration::ZERO, String::new());
    for formula in ODD.iter().map(ToString::to_string).chain(deep()).chain(much()) {
        let begun = Instant::now();
        let short: String = formula.chars().take(60).collect();
        if let Ok(png) = draw(&formula) {
            let picture = Pixmap::decode_png(&png).unwrap();
            assert!(picture.width() <= WIDTH_MAX && picture.height() <= HEIGHT_MAX, "{short}");
            assert!(picture.width() * picture.height() <= PIXELS_MAX, "{short}");
            assert!(png.len() < 1024 * 1024, "{short}: {} bytes", png.len());
        }
        if begun.elapsed() > slowest.0 {
            slowest = (begun.elapsed(), short);
        }
    }
    println!("the slowest: {slowest:?}");
    // Generous, because tests run unoptimised beside others; a formula that never ends takes far longer.
    assert!(slowest.0 < Duration::from_secs(60), "{slowest:?}");
    assert!(!std::path::Path::new("/tmp/staffai-was-here").exists());
}

#[test]
fn letters_of_other_fonts_are_refused_and_no_font_is_looked_for() {
    for formula in ["中", r"\text{Привет}", "😀", r"\text{x 😀}"] {
        assert!(draw(formula).unwrap_err().contains("no bundled font has the letter"), "{formula}");
    }
}

#[tokio::test]
async fn many_at_once_are_drawn_one_after_the_other() {
    let (latex, place) = (Latex::default(), place("1"));
    let drawn = futures_util::future::join_all((0..8).map(|_| latex.formula(&place, "x^2"))).await;
    assert!(drawn.iter().all(|png| png.as_ref().is_ok_and(|png| png.starts_with(b"\x89PNG"))));
    assert_eq!(latex.slots.free(), AT_ONCE);
    assert!(matches!(latex.formula(&place, r"\frac").await, Err(NotDrawn::Unable(_))));
}

#[tokio::test]
async fn formulas_of_one_place_leave_a_slot_for_others() {
    let (latex, one, other) = (Latex::default(), place("1"), place("2"));
    let drawn = latex.slots.take(Some(&one));
    let mut further = latex.formula(&one, "x");
    assert!(drawn.is_some() && futures_util::poll!(&mut further).is_pending() && latex.slots.free() == 1);
    assert!(latex.formula(&other, "x").await.is_ok());
    assert!(futures_util::poll!(&mut further).is_pending());
    drop(drawn);
    assert!(further.await.is_ok());
}

#[test]
fn chemical_notation_takes_more_than_linear_time_and_is_short() {
    assert!(laid_out(r"\ce{2 H2 + O2 -> 2 H2O}").is_ok());
    for command in ["ce", "pu"] {
        let refused = laid_out(&format!(r"\{command}{{{}}}", "(".repeat(CHEMISTRY_MAX))).err();
        assert!(refused.is_some_and(|refused| refused.contains("chemical")));
    }
    assert!(laid_out(&format!(r"\centerdot {}", "x".repeat(CHEMISTRY_MAX))).is_ok(), "another command");
}

#[test]
fn reading_a_formula_costs_in_proportion_to_it() {
    // The pixels of a drawn formula are bounded by the picture; reading and layout come before that.
    let formulas = |size: usize| {
        vec![
            "x+".repeat(size / 2),
            "{".repeat(size),
            "{".repeat(size / 2) + &"}".repeat(size / 2),
            "x^{".repeat(size / 3),
            r"\frac{1}{".repeat(size / 10),
            r"\left(".repeat(size / 6),
            r"\begin{matrix}".repeat(size / 14),
            format!(r"\begin{{matrix}}{}\end{{matrix}}", r"1 & 2 \\ ".repeat(size / 9)),
            format!(r"\text{{{}}}", "w ".repeat(size / 2)),
            r"\def\a{b}".repeat(size / 9),
            "%".repeat(size),
        ]
    };
    cost::grows_linearly(FORMULA_MAX / 8, formulas, |formulas| {
        for formula in &formulas {
            drop(laid_out(formula));
        }
    });
}
