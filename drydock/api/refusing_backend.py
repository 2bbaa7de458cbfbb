"""Override those methods of moto's SageMaker backend that invent an answer or fail.

`api.operations` refuses requests whose answer moto would invent. But moto's CloudFormation creates resources without a
request, by calls of the backend's methods. So the methods that only CloudFormation calls refuse the call.
"""

from typing import Any, NoReturn

from moto.sagemaker.models import SageMakerModelBackend

from drydock.api.operations import refuse_operation
from drydock.jobs.rules import refuse


class RefusingBackend(SageMakerModelBackend):
    """moto's SageMaker backend of one account and region.

    It refuses resources of CloudFormation that drydock does not support and, without `--invented-answers`, validations
    of model packages.
    """

    gives_invented_answers = False
    """Whether the backend gives moto's invented answers (option `--invented-answers`)."""

    def create_endpoint(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse an endpoint of a CloudFormation stack.

        Raises:
            NotImplementedError: Always. A retry cannot help.
        """
        raise NotImplementedError("Endpoints of CloudFormation stacks do not run in drydock: use CreateEndpoint.")

    def create_endpoint_config(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse an endpoint configuration of a CloudFormation stack.

        Raises:
            NotImplementedError: Always. A retry cannot help.
        """
        raise NotImplementedError(
            "Endpoint configurations of CloudFormation stacks are not supported by drydock: use CreateEndpointConfig."
        )

    def create_auto_ml_job_v2(self, *args: Any, **kwargs: Any) -> str:
        """Create an AutoML job that trains nothing, and return its ARN. Called only with `--invented-answers`.

        moto 5.2.5 fails without two members that SageMaker calls optional: CompletionCriteria and ProblemType.

        Raises:
            AWSValidationException: AutoMLProblemTypeConfig is missing or empty. A retry cannot help.
        """
        config = kwargs["auto_ml_problem_type_config"]
        if not config:
            refuse("Value null at 'autoMLProblemTypeConfig' failed to satisfy constraint: Member must not be null")
        defaults = {"CompletionCriteria": {}, "ProblemType": ""}
        full_config = {name: {**defaults, **members} for name, members in config.items()}
        arn = str(super().create_auto_ml_job_v2(*args, **{**kwargs, "auto_ml_problem_type_config": full_config}))
        self.auto_ml_jobs[kwargs["auto_ml_job_name"]].auto_ml_problem_type_config = config
        return arn

    def create_model_package(self, *args: Any, **kwargs: Any) -> str:
        """Store a model package, and return its ARN. moto 5.2.5 would report that it was validated and scanned.

        Raises:
            NotImplementedError: The request has a ValidationSpecification, which nothing runs, and drydock runs without
                `--invented-answers`. A retry cannot help.
        """
        if self.gives_invented_answers:
            return str(super().create_model_package(*args, **kwargs))
        if kwargs.get("validation_specification"):
            refuse_operation("CreateModelPackage with a ValidationSpecification", "validations of model packages")
        arn = str(super().create_model_package(*args, **kwargs))
        self.model_packages[arn].model_package_status_details = {"ValidationStatuses": [], "ImageScanStatuses": []}
        return arn
