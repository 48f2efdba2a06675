//! SVG to PNG with the font that is built in, so that a picture is the same on every machine.

use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Color, Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb::Database};

use crate::Error;

static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.load_font_data(dejavu::sans::bold().to_vec());
    Arc::new(fonts)
});

/// Pixels of a picture at most on each side: a chart that is longer is drawn smaller.
const SIDE_MAX: f32 = 8000.0;

/// Draws a chart at twice its size, sharp on every screen.
pub fn png(svg: &str) -> Result<Vec<u8>, Error> {
    let options = Options { fontdb: FONTS.clone(), font_family: "DejaVu Sans".into(), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|e| Error::Picture(e.to_string()))?;
    let size = tree.size();
    let scale = (SIDE_MAX / size.width().max(size.height())).min(2.0);
    let pixels = |side: f32| (side * scale).ceil().max(1.0) as u32;
    let mut picture = Pixmap::new(pixels(size.width()), pixels(size.height()))
        .ok_or_else(|| Error::Picture("it has no size".into()))?;
    picture.fill(Color::WHITE);
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut picture.as_mut());
    encode(&picture).map_err(|e| Error::Picture(e.to_string()))
}

/// Without transparency, which charts have none of, and without filters: a quarter of the size for flat colours.
fn encode(picture: &Pixmap) -> Result<Vec<u8>, png::EncodingError> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, picture.width(), picture.height());
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Default);
    encoder.set_filter(png::FilterType::NoFilter);
    let pixels: Vec<u8> = picture.pixels().iter().flat_map(|p| [p.red(), p.green(), p.blue()]).collect();
    encoder.write_header()?.write_image_data(&pixels)?;
    Ok(out)
}
