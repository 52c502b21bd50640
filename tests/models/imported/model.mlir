// The form in which the importers of ONNX and PyTorch write models. The compiler adds the function `@NAME$async` and a wrapper
// that waits for it; neither has a declaration.

func.func @classify(%images: !torch.vtensor<[?,4],f32>, %weights: !torch.vtensor<[4,3],f32>)
    -> (!torch.vtensor<[?,3],f32>, !torch.vtensor<[?,3],i1>) {
  %zero = torch.constant.int 0
  %scores = torch.aten.mm %images, %weights
      : !torch.vtensor<[?,4],f32>, !torch.vtensor<[4,3],f32> -> !torch.vtensor<[?,3],f32>
  %positive = torch.aten.gt.Scalar %scores, %zero : !torch.vtensor<[?,3],f32>, !torch.int -> !torch.vtensor<[?,3],i1>
  return %scores, %positive : !torch.vtensor<[?,3],f32>, !torch.vtensor<[?,3],i1>
}

func.func @advance(%state: !torch.vtensor<[2],si64>, %unused: !torch.vtensor<[7],f32>) -> !torch.vtensor<[2],si64> {
  %one = torch.constant.int 1
  %next = torch.aten.add.Scalar %state, %one, %one
      : !torch.vtensor<[2],si64>, !torch.int, !torch.int -> !torch.vtensor<[2],si64>
  return %next : !torch.vtensor<[2],si64>
}
