//! The inverse of a small symmetric positive definite matrix.

/// A square matrix by rows.
pub(crate) type Square = Vec<Vec<f64>>;

/// The inverse by Cholesky's decomposition; `None` if the matrix is singular to working precision.
pub(crate) fn inverse(a: &Square) -> Option<Square> {
    let l = cholesky(a)?;
    let n = a.len();
    let mut result = vec![vec![0.0; n]; n];
    for column in 0..n {
        let mut unit = vec![0.0; n];
        unit[column] = 1.0;
        for (row, value) in solve(&l, unit).into_iter().enumerate() {
            result[row][column] = value;
        }
    }
    Some(result)
}

fn cholesky(a: &Square) -> Option<Square> {
    let n = a.len();
    let mut l = vec![vec![0.0; n]; n];
    for i in 0..n {
        for j in 0..=i {
            let sum = a[i][j] - (0..j).map(|k| l[i][k] * l[j][k]).sum::<f64>();
            if i != j {
                l[i][j] = sum / l[j][j];
            } else if sum > 1e-10 * a[i][i].abs() {
                l[i][i] = sum.sqrt();
            } else {
                return None;
            }
        }
    }
    Some(l)
}

/// Solves L Lᵀ x = b.
fn solve(l: &Square, mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    for i in 0..n {
        let sum: f64 = (0..i).map(|k| l[i][k] * b[k]).sum();
        b[i] = (b[i] - sum) / l[i][i];
    }
    for i in (0..n).rev() {
        let sum: f64 = (i + 1..n).map(|k| l[k][i] * b[k]).sum();
        b[i] = (b[i] - sum) / l[i][i];
    }
    b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_times_its_inverse_is_one() {
        let a = vec![vec![4.0, -1.0, -0.5], vec![-1.0, 3.0, -1.0], vec![-0.5, -1.0, 2.0]];
        let b = inverse(&a).unwrap();
        for (i, row) in a.iter().enumerate() {
            for j in 0..3 {
                let sum: f64 = row.iter().zip(&b).map(|(x, other)| x * other[j]).sum();
                assert!((sum - f64::from(i == j)).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn a_singular_matrix_has_none() {
        assert!(inverse(&vec![vec![1.0, -1.0], vec![-1.0, 1.0]]).is_none());
    }
}
