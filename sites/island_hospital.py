"""An external site: it does not take part in training and only tests the finished model."""

from fedpdc_med.hospitals import HospitalSite, Phantoms, Scanner

SITE = HospitalSite(
    name="island-hospital",
    title="Island Hospital (external)",
    films=Phantoms(
        case_mix={"normal": 40, "pneumonia": 40, "covid-19": 40, "tuberculosis": 40},
        scanner=Scanner(
            model="island CR",
            modality="CR",
            bits=10,
            exposure=-0.05,
            noise=0.035,
            blur=0.8,
            grid=0.03,
            contrast=1.1,
            collimation=0.06,
            ap_share=0.4,
        ),
    ),
    takes_part=False,
)
